import { computed, onScopeDispose, type Ref, ref, type ShallowRef, shallowRef } from "vue";
import { ApiError } from "../../api/api-error.ts";
import type { ChatMessage, ChatSession, ChatSessionDetail } from "../../api/chat-types.ts";
import { readEvents } from "../../api/read-events.ts";
import { open, request } from "../../api/request.ts";
import { useReread } from "../../ui/use-reread.ts";
import { applyEvent } from "./apply-event.ts";
import { isClosedTo, rememberClosed } from "./closed-conversations.ts";

export interface Conversation {
  readonly session: ShallowRef<ChatSession | undefined>;
  readonly messages: ShallowRef<readonly ChatMessage[]>;
  readonly isRunning: Readonly<Ref<boolean>>;
  /** There are messages before the first one that is shown. */
  readonly hasEarlier: Readonly<Ref<boolean>>;
  /** The server takes nothing that this token says in it. */
  readonly isClosed: Readonly<Ref<boolean>>;
  /** Why it could not be read, or what was said was not taken. */
  readonly failure: ShallowRef<ApiError | undefined>;
  /** What is being waited for, when the provider is asked again. */
  readonly retry: Ref<string>;
  /** Shows another conversation, or an empty one. A turn of the one before goes on at the server. */
  show(id: string): Promise<void>;
  /** Puts the page of messages before the first one in front of it, and says so just before. Rejects with an `ApiError`. */
  showEarlier(onRead: () => void): Promise<void>;
  /** Says something; begins a conversation when none is shown. Resolves with its id as soon as it is taken. */
  say(text: string, wanted: { readonly model: string; readonly expert: string }): Promise<string | undefined>;
  stop(): Promise<void>;
}

const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;
/** Words come faster than anybody reads; they are drawn this often at most, in milliseconds. */
const FRAME = 40;

/** One conversation on the screen. A lost connection is taken up again where it broke off. */
export function useConversation(): Conversation {
  const session = shallowRef<ChatSession>();
  const messages = shallowRef<readonly ChatMessage[]>([]);
  const failure = shallowRef<ApiError>();
  const retry = ref("");
  const isSending = ref(false);
  const previous = ref<number>();
  let shown = new AbortController();
  let shownId = "";
  onScopeDispose(() => shown.abort());

  const isRunning = computed(() => isSending.value || messages.value.at(-1)?.status === "running");
  const hasEarlier = computed(() => previous.value !== undefined);
  const isClosed = computed(() => session.value !== undefined && isClosedTo(session.value.owner));
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
      const {
        messages: last,
        previous: before,
        ...rest
      } = await request<ChatSessionDetail>(pathOf(id), {
        signal,
      });
      session.value = rest;
      previous.value = before;
      messages.value = last;
    } catch (thrown) {
      if (!signal.aborted) fail(thrown);
      return;
    }
    if (messages.value.at(-1)?.status === "running") void follow(id, undefined, signal);
  }

  // What failed to be said is said again by whoever wrote it.
  useReread(
    () => (session.value === undefined && shownId !== "" ? failure.value : undefined),
    () => show(shownId),
  );

  async function showEarlier(onRead: () => void): Promise<void> {
    const { id } = session.value ?? {};
    const before = previous.value;
    if (id === undefined || before === undefined) return;
    const { signal } = shown;
    try {
      const page = await request<ChatSessionDetail>(pathOf(id), { query: { before }, signal });
      if (signal.aborted || previous.value !== before) return;
      onRead();
      previous.value = page.previous;
      messages.value = [...page.messages, ...messages.value];
    } catch (thrown) {
      if (!signal.aborted) throw thrown;
    }
  }

  async function say(
    text: string,
    { model, expert }: { readonly model: string; readonly expert: string },
  ): Promise<string | undefined> {
    const { signal } = shown;
    isSending.value = true;
    failure.value = undefined;
    try {
      session.value ??= await request<ChatSession>("/api/chat/sessions", {
        method: "POST",
        body: { ...(model === "" ? {} : { model }), ...(expert === "" ? {} : { expert }) },
        signal,
      });
      const { id } = session.value;
      const body = { content: text, ...(model === "" ? {} : { model }) };
      const headers = { accept: "text/event-stream" };
      const response = await open(`${pathOf(id)}/messages`, { method: "POST", body, headers, signal });
      messages.value = [
        ...messages.value,
        { id: `said ${Date.now()}`, role: "user", status: "completed", content: text },
        { id: "", role: "assistant", status: "running", model, parts: [] },
      ];
      void follow(id, response, signal);
      return id;
    } catch (thrown) {
      if (signal.aborted) return undefined;
      const isRefused = thrown instanceof ApiError && thrown.code === "chat_forbidden";
      if (isRefused && session.value !== undefined) rememberClosed(session.value.owner);
      else fail(thrown);
      return undefined;
    } finally {
      isSending.value = false;
    }
  }

  /** Reads the turn until its end, over as many connections as it takes. */
  async function follow(id: string, first: Response | undefined, signal: AbortSignal): Promise<void> {
    let response = first;
    let lastId: string | undefined;
    let wait = FIRST_WAIT;
    while (!signal.aborted) {
      try {
        response ??= await open(`${pathOf(id)}/events`, {
          headers: lastId === undefined ? {} : { "last-event-id": lastId },
          signal,
        });
        wait = FIRST_WAIT;
        for await (const { event, id: eventId, data } of readEvents(response.body ?? new ReadableStream())) {
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
    if (id !== undefined) await request(`${pathOf(id)}/stop`, { method: "POST", body: {} }).catch(fail);
  }

  return {
    session,
    messages,
    isRunning,
    hasEarlier,
    isClosed,
    failure,
    retry,
    show,
    showEarlier,
    say,
    stop,
  };
}

/** The server answered, and will not answer otherwise: it does not know the conversation any more. */
function isFinal({ status }: ApiError): boolean {
  return status >= 400 && status < 500 && status !== 429;
}

function pathOf(id: string): string {
  return `/api/chat/sessions/${encodeURIComponent(id)}`;
}
