import { computed, onScopeDispose, reactive, ref, shallowRef, watch } from "vue";
import {
  ApiError,
  type ChatMessage,
  type ChatPart,
  type ChatSession,
  type ChatTextPart,
  type ChatToolPart,
  currentSession,
  open,
  type RackEvent,
  readEvents,
  request,
  resumeAfter,
} from "../../api/index.ts";
import { keep, kept } from "../../text/index.ts";
import { useReread } from "../../ui/index.ts";

const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;
/** Shortest time between two redraws of streamed text, in milliseconds. */
const FRAME = 40;

/** The conversation on the screen. After a lost connection it continues where it broke off. */
export function useConversation() {
  const session = shallowRef<ChatSession>();
  const messages = shallowRef<readonly ChatMessage[]>([]);
  /** Why the conversation could not be read or a message not be sent. */
  const failure = shallowRef<ApiError>();
  /** Why a request to the model provider failed, while the server retries it; otherwise empty. */
  const retry = ref("");
  const isSending = ref(false);
  const previous = ref<number>();
  let shown = new AbortController();
  let shownId = "";
  onScopeDispose(() => shown.abort());

  const isRunning = computed(() => isSending.value || messages.value.at(-1)?.status === "running");
  const hasEarlier = computed(() => previous.value !== undefined);
  /** Whether this token may not write in the conversation. */
  const isClosed = computed(() => session.value !== undefined && closedOwners.has(session.value.owner));
  const fail = (thrown: unknown) => {
    failure.value = ApiError.of(thrown);
  };

  let latest: ChatMessage | undefined;
  let drawing: ReturnType<typeof setTimeout> | undefined;
  function put(answer: ChatMessage): void {
    latest = answer;
    drawing ??= setTimeout(draw, FRAME);
  }
  function draw(): void {
    clearTimeout(drawing);
    drawing = undefined;
    if (latest !== undefined) messages.value = [...messages.value.slice(0, -1), latest];
    latest = undefined;
  }

  /** Shows another conversation, or a new one. A running turn of the previous one goes on at the server. */
  async function show(id: string): Promise<void> {
    shown.abort();
    shown = new AbortController();
    shownId = id;
    const { signal } = shown;
    latest = undefined;
    session.value = undefined;
    messages.value = [];
    previous.value = undefined;
    failure.value = undefined;
    retry.value = "";
    if (id === "") return;
    try {
      const found = await request("GET /api/chat/sessions/{id}", { path: { id }, signal });
      session.value = found;
      previous.value = found.previous;
      messages.value = found.messages;
    } catch (thrown) {
      if (!signal.aborted) fail(thrown);
      return;
    }
    if (messages.value.at(-1)?.status === "running") void follow(id, undefined, signal);
  }

  // Only reads are retried; the person sends a failed message again.
  useReread(
    () => (session.value === undefined && shownId !== "" ? failure.value : undefined),
    () => show(shownId),
  );

  /** Adds the previous page of messages; calls `onRead` just before that. Rejects with an `ApiError`. */
  async function showEarlier(onRead: () => void): Promise<void> {
    const { id } = session.value ?? {};
    const before = previous.value;
    if (id === undefined || before === undefined) return;
    const { signal } = shown;
    try {
      const page = await request("GET /api/chat/sessions/{id}", { path: { id }, query: { before }, signal });
      if (signal.aborted || previous.value !== before) return;
      onRead();
      previous.value = page.previous;
      messages.value = [...page.messages, ...messages.value];
    } catch (thrown) {
      if (!signal.aborted) throw thrown;
    }
  }

  /**
   * Sends a message; starts a conversation when none is shown. With `from`, it takes the place of the messages from that
   * position on. Resolves with the conversation's id once the
   * server has accepted the message.
   */
  async function say(
    content: NonNullable<ChatMessage["content"]>,
    { model, expert, from }: { readonly model: string; readonly expert: string; readonly from?: number },
  ): Promise<string | undefined> {
    const { signal } = shown;
    isSending.value = true;
    failure.value = undefined;
    try {
      session.value ??= await request("POST /api/chat/sessions", {
        body: { ...(model === "" ? {} : { model }), ...(expert === "" ? {} : { expert }) },
        signal,
      });
      const { id } = session.value;
      const body = { content, ...(model === "" ? {} : { model }), ...(from === undefined ? {} : { from }) };
      const headers = { accept: "text/event-stream" };
      const asked = { path: { id }, body, headers, signal };
      const response = await open("POST /api/chat/sessions/{id}/messages", asked);
      const kept = messages.value.filter(({ position = 0 }) => from === undefined || position < from);
      // The server numbers the messages of a conversation without gaps.
      const position = (kept.at(-1)?.position ?? 0) + 1;
      messages.value = [
        ...kept,
        { id: `said ${Date.now()}`, role: "user", status: "completed", content, position },
        { id: "", role: "assistant", status: "running", model, parts: [], position: position + 1 },
      ];
      void follow(id, response, signal);
      return id;
    } catch (thrown) {
      if (signal.aborted) return undefined;
      const isRefused = thrown instanceof ApiError && thrown.code === "chat_forbidden";
      if (isRefused && session.value !== undefined) closedOwners.add(session.value.owner);
      else fail(thrown);
      return undefined;
    } finally {
      isSending.value = false;
    }
  }

  /** Reads the events of the running turn to its end, reconnecting as often as necessary. */
  async function follow(id: string, first: Response | undefined, signal: AbortSignal): Promise<void> {
    let response = first;
    let lastId: string | undefined;
    let wait = FIRST_WAIT;
    while (!signal.aborted) {
      try {
        const asked = { path: { id }, headers: resumeAfter(lastId), signal };
        response ??= await open("GET /api/chat/sessions/{id}/events", asked);
        wait = FIRST_WAIT;
        for await (const { event = "", id: eventId, data } of readEvents(
          response.body ?? new ReadableStream(),
        )) {
          if (signal.aborted) return;
          if (eventId !== undefined) lastId = eventId;
          const value: Record<string, unknown> = JSON.parse(data);
          retry.value = event === "retry" ? String(value.reason ?? "") : "";
          const answer = latest ?? messages.value.at(-1);
          if (answer !== undefined) put(applyEvent(answer, { type: event, data: value }));
          if (event === "end") return draw();
        }
      } catch (thrown) {
        if (signal.aborted) return;
        if (thrown instanceof ApiError && isFinal(thrown)) return fail(thrown);
      }
      response = undefined;
      await new Promise((resolve) => setTimeout(resolve, wait));
      wait = Math.min(wait * 2, LONGEST_WAIT);
    }
  }

  async function stop(): Promise<void> {
    const { id } = session.value ?? {};
    if (id !== undefined)
      await request("POST /api/chat/sessions/{id}/stop", { path: { id }, body: {} }).catch(fail);
  }

  return { session, messages, isRunning, hasEarlier, isClosed, failure, retry, show, showEarlier, say, stop };
}

/** Whether a repeated request would fail again. */
function isFinal({ status }: ApiError): boolean {
  return status >= 400 && status < 500 && status !== 429;
}

/** Applies an event of a chat turn to the turn's answer. */
export function applyEvent(message: ChatMessage, { type, data }: RackEvent): ChatMessage {
  const parts = message.parts ?? [];
  switch (type) {
    case "turn":
      return { ...message, id: String(data.messageId) };
    case "message":
      return read<ChatMessage>(data);
    case "text":
    case "reasoning":
    case "refusal":
      return { ...message, parts: appended(parts, type, String(data.text ?? "")) };
    case "call": {
      const { id, callId, name, displayName, arguments: args } = read<ChatToolPart>(data);
      const call = { type: "tool", id, callId, name, displayName, arguments: args } as const;
      return { ...message, parts: [...parts, { ...call, state: { status: "pending" } }] };
    }
    case "state":
      return changed(message, data.callId, { state: read(data.state) });
    case "progress":
      return changed(message, data.callId, { progress: read(data.update) });
    case "loop":
      return changed(message, data.callId, { loop: read(data.verdict) });
    case "model":
      return { ...message, requests: [...(message.requests ?? []), read(data)] };
    case "usage":
      return { ...message, usage: read(data.total) };
    case "end":
      return ended(message, read(data.end));
    default:
      return message;
  }
}

function read<Carried>(data: unknown): Carried {
  return data as Carried; // The server's tests check the shapes of its events.
}

function appended(parts: readonly ChatPart[], type: ChatTextPart["type"], text: string): readonly ChatPart[] {
  const last = parts.at(-1);
  if (last === undefined || last.type === "tool" || last.type !== type) return [...parts, { type, text }];
  return [...parts.slice(0, -1), { type, text: last.text + text }];
}

function changed(message: ChatMessage, callId: unknown, change: Partial<ChatToolPart>): ChatMessage {
  const parts = (message.parts ?? []).map((part) =>
    part.type === "tool" && part.callId === callId ? { ...part, ...change } : part,
  );
  return { ...message, parts };
}

function ended(message: ChatMessage, end: ChatMessage["end"]): ChatMessage {
  const { reason = "stop" } = end ?? {};
  const status =
    reason === "error" || reason === "stopped" || reason === "interrupted" ? reason : "completed";
  return { ...message, status, ...(end === undefined ? {} : { end }) };
}

/**
 * `shown`: ids of the calls at which the page reports a loop, the latest call of each loop. A loop that ended
 * the answer is reported below the answer instead. `last`: the last call that was part of a loop.
 */
export function loopsIn({ parts = [], end }: Pick<ChatMessage, "parts" | "end">): {
  readonly shown: ReadonlySet<string>;
  readonly last: ChatToolPart | undefined;
} {
  const caught = parts.filter(
    (part): part is ChatToolPart =>
      part.type === "tool" && part.loop !== undefined && part.loop.action !== "none",
  );
  const last = caught.at(-1);
  const latest = new Map(caught.map((part) => [keyOf(part), part.callId]));
  if (end?.reason === "loop" && last !== undefined) latest.delete(keyOf(last));
  return { shown: new Set(latest.values()), last };
}

function keyOf({ name, loop }: ChatToolPart): string {
  return loop?.fingerprint ?? `${name} ${loop?.signal}`;
}

/** Owners for whose conversations this token was refused. The server does not tell who a token is. */
const closedOwners = reactive(new Set<string>());

// After a new sign-in, the token may be the owner's.
watch(
  () => currentSession.token,
  () => closedOwners.clear(),
  { flush: "sync" },
);

const KEY = "toolrack.chat.draft.";

/** The unsent text of a conversation in this tab. The empty id stands for a new conversation. */
export function draftOf(conversation: string): string {
  return kept(KEY + conversation, "session") ?? "";
}

/** Keeps unsent text; an empty text removes it. */
export function keepDraft(conversation: string, text: string): void {
  keep(KEY + conversation, text || undefined, "session");
}
