import type { IncomingMessage } from "node:http";
import type { Mount } from "../http/mount.ts";

/** How long answers may take to be made once the calls behind them have ended, in milliseconds. */
const LAST_WORDS = 1_000;

/** The same mount, which closes when what it was asked has been answered: the answer to a call is made after its end. */
export function answersFirst(mount: Mount): Mount {
  let unanswered = 0;
  let whenAnswered = () => {};
  // One function for all answers, and a mere count: what is kept of every request costs more than the request.
  const leave = () => {
    if (--unanswered === 0) whenAnswered();
  };
  const answered = () =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, LAST_WORDS);
      whenAnswered = () => {
        clearTimeout(timer);
        resolve();
      };
      if (unanswered === 0) whenAnswered();
    });
  return {
    ...mount,
    handle(incoming, outgoing, grant) {
      const handled = mount.handle(incoming, outgoing, grant);
      if (handled === undefined || isEndless(incoming)) return handled;
      unanswered++;
      handled.then(leave, leave);
      return handled;
    },
    async close() {
      await answered();
      await mount.close?.();
    },
  };
}

/** Streams by which a client listens end with the mount. */
function isEndless({ method, headers }: IncomingMessage): boolean {
  return method !== "POST" || headers["mcp-method"] === "subscriptions/listen";
}
