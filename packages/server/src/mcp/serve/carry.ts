import { setTimeout as wait } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import {
  CLIENT_CAPABILITIES_META_KEY,
  type InputRequiredResult,
  inputRequired,
  LOG_LEVEL_META_KEY,
  type LoggingLevel,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
  SdkError,
  SdkErrorCode,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { UnfitAnswer } from "../../calls/index.ts";
import type { Notice } from "./changes.ts";
import { type ClientAbilities, missingAbility } from "./clients.ts";
import type { Exchange, Question, Wants } from "./exchange.ts";
import { type Binding, type HeldExchanges, type HeldTicket, patience } from "./held-exchanges.ts";
import type { RackServer, ServerPlace } from "./surface.ts";

/** One request of a client, as far as an exchange cares. */
export interface Leg extends ServerPlace {
  readonly server: RackServer;
  readonly context: ServerContext;
}

/** What the client of this request says that it can be asked. */
export function abilitiesOf({ server, context, era, canAsk }: Leg): ClientAbilities {
  if (era === "modern") return envelopeOf(context)[CLIENT_CAPABILITIES_META_KEY] ?? {};
  return canAsk ? (server.getClientCapabilities() ?? {}) : {};
}

export function wantsOf({ server, context, era }: Leg): Wants {
  const isLegacy = era === "legacy";
  const level = isLegacy ? server.logLevel : envelopeOf(context)[LOG_LEVEL_META_KEY];
  return {
    progress: context.mcpReq._meta?.progressToken !== undefined,
    messages: isLegacy || level !== undefined,
    level,
  };
}

/** What the client calls itself. */
export function clientNameOf({ server }: Leg): string {
  const info = server.getClientVersion();
  return info === undefined ? "" : `${info.name} ${info.version}`;
}

/**
 * Carries an exchange to the client until it ends, or until the client has to come back with answers. Rejects with
 * what the work rejected with.
 */
export async function carry<Result>(
  exchange: Exchange<Result>,
  leg: Leg,
  held: HeldExchanges,
  binding: Binding,
): Promise<Result | InputRequiredResult> {
  const { context, era } = leg;
  const signal = cancelSignal(leg);
  const cancel = () => exchange.cancel(reasonOf(signal));
  signal.addEventListener("abort", cancel, { once: true });
  if (signal.aborted) cancel();
  const asking = new AbortController();
  // Whose stream is gone hears neither the question nor what comes of it.
  const stream = context.http?.req?.signal;
  const ends = [asking.signal, held.closing, ...(stream === undefined ? [] : [stream])];
  const outlet = outletFor(leg);
  const pace = new Pace();
  try {
    // A client that comes back without all answers is asked for the rest.
    if (era === "modern" && exchange.open.length > 0 && !exchange.hasNews)
      return sendBack(exchange, leg, held, binding);
    for (;;) {
      const step = await exchange.next(outlet);
      switch (step.kind) {
        case "says":
          for (const notice of step.notices) await tell(notice, context);
          await pace.said(step.notices.length);
          break;
        case "asks":
          if (era === "modern") return sendBack(exchange, leg, held, binding);
          for (const question of step.questions) void askNow(exchange, question, context, ends);
          break;
        case "ended":
          held.forget(exchange);
          return step.result;
        case "failed":
          held.forget(exchange);
          throw step.reason;
      }
    }
  } finally {
    asking.abort("the call has ended");
    signal.removeEventListener("abort", cancel);
  }
}

function outletFor({ context, outlet }: Leg): Outlet | undefined {
  return (context.http?.authInfo?.extra?.outlet as Outlet | undefined) ?? outlet; // Put there by us.
}

/** The older versions too have no way to come for an answer whose stream is gone, in a session as without one. */
function cancelSignal({ context, era }: Leg): AbortSignal {
  const request = context.http?.req;
  const { signal } = context.mcpReq;
  return era === "legacy" && request !== undefined ? AbortSignal.any([signal, request.signal]) : signal;
}

/**
 * The exchange that a client came back to, given its answers; undefined when it begins something new. Throws when the
 * state was given for something else, or has been used.
 */
export function comeBack<Result>(
  subject: string,
  input: Readonly<Record<string, unknown>> = {},
  leg: Leg,
): Exchange<Result> | undefined {
  const { mcpReq } = leg.context;
  const ticket = mcpReq.requestState<HeldTicket<Result>>();
  if (ticket === undefined) return undefined;
  const { exchange } = ticket;
  try {
    // What runs is what was first asked for: who comes with other arguments would get the answer to something else.
    if (exchange.subject !== subject || !isDeepStrictEqual(exchange.input, input)) {
      throw new Error("The state was given for another request.");
    }
    ticket.use();
  } catch {
    // The same words as for any other state that is not good.
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, "Invalid or expired requestState", {
      reason: "invalid_request_state",
    });
  }
  exchange.wants = wantsOf(leg);
  for (const [key, value] of Object.entries(mcpReq.inputResponses ?? {})) exchange.answer(key, value);
  return exchange;
}

function envelopeOf({ mcpReq }: ServerContext): {
  readonly [CLIENT_CAPABILITIES_META_KEY]?: ClientAbilities;
  readonly [LOG_LEVEL_META_KEY]?: string;
} {
  return mcpReq.envelope ?? {};
}

/** The questions that are open, those that were answered wrongly among them. */
export function sendBack(
  exchange: Exchange<unknown>,
  leg: Leg,
  held: HeldExchanges,
  binding: Binding,
): InputRequiredResult {
  for (const { method, params } of exchange.open) {
    const missing = missingAbility(abilitiesOf(leg), method, params);
    if (missing === undefined) continue;
    // It said otherwise when it came before. The question cannot reach it, so that nobody would ever come back.
    exchange.cancel(`the client no longer declares what ${method} needs`);
    held.forget(exchange);
    throw new MissingRequiredClientCapabilityError({ requiredCapabilities: missing });
  }
  // Until it comes back there is nobody to be told anything.
  exchange.wants = { progress: false, messages: false };
  const requests = exchange.open.map(({ key, method, params }) => [key, { method, params }] as const);
  return inputRequired({
    // Made from what MCP's own methods are asked with; the types of the SDK spell out each of their shapes.
    inputRequests: Object.fromEntries(requests) as never,
    requestState: held.hold(exchange, binding),
  });
}

async function askNow(
  exchange: Exchange<unknown>,
  { key, method, params, signal }: Question,
  { mcpReq }: ServerContext,
  ends: readonly AbortSignal[],
): Promise<void> {
  try {
    const request = { method, params: params as Record<string, unknown> };
    const options = { signal: AbortSignal.any([signal, ...ends]), timeout: patience };
    for (let asked = 0; asked < MOST_ASKED; asked++) {
      const answer = await mcpReq.send(request, options).catch(unfitAsUndefined);
      if (exchange.answer(key, answer) || !exchange.open.some((question) => question.key === key)) return;
    }
    exchange.refuse(key, new UnfitAnswer(`the client's answers did not fit what it was asked for`));
  } catch (thrown) {
    exchange.refuse(key, thrown);
  }
}

/** A person who mistyped is asked again; a program that answers wrongly would do so for ever. */
const MOST_ASKED = 3;

/** The SDK refuses what is not even of the right kind. */
function unfitAsUndefined(thrown: unknown): undefined {
  if (thrown instanceof SdkError && thrown.code === SdkErrorCode.InvalidResult) return undefined;
  throw thrown;
}

async function tell(notice: Notice, { mcpReq }: ServerContext): Promise<void> {
  if (notice.kind === "progress") {
    const progressToken = mcpReq._meta?.progressToken;
    if (progressToken === undefined) return;
    await mcpReq.notify({ method: "notifications/progress", params: { ...notice.update, progressToken } });
    return;
  }
  const { method, params } = notice;
  if (method !== "notifications/message") {
    await mcpReq.notify({ method, params: { ...params } });
    return;
  }
  const { level, data, logger } = params as { level?: LoggingLevel; data?: unknown; logger?: string };
  // The SDK knows which levels the client asked for.
  await mcpReq.log(level ?? "info", data, logger);
}

function reasonOf({ reason }: AbortSignal): string {
  if (typeof reason === "string") return reason;
  if (reason instanceof SdkError && reason.code === SdkErrorCode.ConnectionClosed)
    return "the client closed the connection";
  return reason instanceof Error ? reason.message : "the client cancelled it";
}

/**
 * The way out to a client. Who has something to say that can wait, or be left out, looks here first: a client that does
 * not read would have all of it kept for it.
 */
export class Outlet {
  readonly #isFull: () => boolean;
  readonly #waiting = new Set<() => void>();

  constructor(isFull: () => boolean) {
    this.#isFull = isFull;
  }

  /** More has been said than the client has taken in. */
  get isFull(): boolean {
    return this.#isFull();
  }

  /** Acts once, when there may be room again or nobody is left. Answers how to stop waiting for it. */
  whenFreed(act: () => void): () => void {
    this.#waiting.add(act);
    return () => this.#waiting.delete(act);
  }

  /** Resolves when there is room. */
  async room(): Promise<void> {
    while (this.isFull) {
      await new Promise<void>((resolve) => {
        this.whenFreed(resolve);
      });
    }
  }

  /** To be called when the client has taken in what it was told, or has gone. */
  freed(): void {
    if (this.#waiting.size === 0) return;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const act of waiting) act();
  }
}

/** How many notices go out at once, and how long it then takes until more do, in milliseconds. */
const BURST = 32;
const WINDOW = 100;

/**
 * Slows down what a tool says, so that one that says something all the time fills neither the line nor the memory. The
 * exchange gathers meanwhile, and leaves out what nobody needs.
 */
export class Pace {
  #since = performance.now();
  #said = 0;

  /** Resolves when more may be said. */
  async said(notices: number): Promise<void> {
    this.#said += notices;
    const passed = performance.now() - this.#since;
    if (passed < WINDOW && this.#said < BURST) return;
    if (passed < WINDOW) await wait(WINDOW - passed);
    this.#since = performance.now();
    this.#said = 0;
  }
}
