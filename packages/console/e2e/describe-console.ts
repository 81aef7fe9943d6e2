import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect } from "vitest";
import { chromiumPath, openBrowser, type Visit, type VisitOptions, visit } from "./browser.ts";
import { ConsoleServer, type ConsoleServerOptions } from "./console-server.ts";

export interface ConsoleParts {
  readonly server: () => ConsoleServer;
  /** Opens the console in a browser that has never seen it. */
  readonly open: (options?: VisitOptions) => Promise<Page>;
}

/**
 * Tests that share one server and one browser. After each of them, nothing may have gone wrong in a page: no error, no
 * breach of the security policy, no request to another machine.
 */
export function describeConsole(
  name: string,
  define: (parts: ConsoleParts) => void,
  prepare: () => ConsoleServerOptions | Promise<ConsoleServerOptions> = () => ({}),
): void {
  describe.skipIf(chromiumPath === undefined)(name, { timeout: 480_000 }, () => {
    let server: ConsoleServer;
    let browser: Browser;
    let visits: Visit[] = [];

    beforeAll(async () => {
      [server, browser] = await Promise.all([
        Promise.resolve(prepare()).then((options) => ConsoleServer.start(options)),
        openBrowser(),
      ]);
    }, 240_000);
    afterAll(() => server?.close());
    afterEach(async () => {
      const ended = visits;
      visits = [];
      for (const { page } of ended) await page.context().close();
      expect(ended.flatMap(({ trouble }) => trouble)).toEqual([]);
    });
    define({
      server: () => server,
      async open(options) {
        const made = await visit(browser, server, options);
        visits.push(made);
        return made.page;
      },
    });
  });
}
