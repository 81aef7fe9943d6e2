import { type ClientMethod, compileSchema } from "@toolrack/core";
import { isRecord, whenAborted } from "../../helpers/index.ts";
import { questionKey } from "../wire/index.ts";

export interface Question {
  readonly key: string;
  readonly method: ClientMethod;
  readonly params: object;
  /** Aborts when the question is no longer open, so that the client is not asked any longer. */
  readonly signal: AbortSignal;
}

interface OpenQuestion extends Pick<PromiseWithResolvers<unknown>, "resolve" | "reject"> {
  question: Question;
  /** Aborts the question's signal. */
  readonly withdrawn: AbortController;
}

/** The questions that one call asks its client. Each stays open until it is answered, refused or withdrawn. */
export class Questions {
  readonly #open = new Map<string, OpenQuestion>();
  readonly #answers: Readonly<Record<string, unknown>>;
  readonly #onAsked: () => void;
  /** All keys used so far. Only the asker uses a key again, when its former question is closed. */
  readonly #keys = new Set<string>();
  #untold: Question[] = [];
  #asked = 0;

  /** `answers`: sent with the client's first request, by the keys that the tool chooses for its questions. */
  constructor(answers: unknown, onAsked: () => void) {
    this.#answers = isRecord(answers) ? answers : {};
    this.#onAsked = onAsked;
  }

  get open(): readonly Question[] {
    return Array.from(this.#open.values(), ({ question }) => question);
  }

  /** The open questions by key, in the form of the protocol. */
  get requests(): Readonly<Record<string, object>> {
    return Object.fromEntries(this.open.map(({ key, method, params }) => [key, { method, params }]));
  }

  /** Whether there are questions that `takeNew` has not returned. Some of them may be closed by now. */
  get hasNew(): boolean {
    return this.#untold.length > 0;
  }

  /** Returns the questions that were asked since the last call of `takeNew` and are still open. */
  takeNew(): readonly Question[] {
    const asked = this.#untold.filter(({ key }) => this.#open.has(key));
    this.#untold = [];
    return asked;
  }

  ask(method: ClientMethod, params: object, signal: AbortSignal): Promise<unknown> {
    const { wanted, asked } = splitKey(params);
    const isNew = wanted !== undefined && !this.#keys.has(wanted);
    const isFree = wanted !== undefined && !this.#open.has(wanted);
    const key = this.#newKey(method, isFree ? wanted : undefined);
    const known = isNew && Object.hasOwn(this.#answers, wanted) ? this.#answers[wanted] : undefined;
    if (known !== undefined && isAcceptable(method, asked, known)) return Promise.resolve(known);
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const withdrawn = new AbortController();
    const question = { key, method, params: asked, signal: withdrawn.signal };
    const open: OpenQuestion = { question, resolve, reject, withdrawn };
    this.#add(open);
    const unfollow = whenAborted(signal, () => this.refuse(open.question.key, signal.reason));
    const close = () => {
      // The call's signal lives longer than the question. Without this, listeners would pile up on the signal.
      unfollow();
      withdrawn.abort("the question is no longer asked");
    };
    promise.then(close, close);
    return promise;
  }

  /**
   * Takes the client's answer. Returns false when the answer is invalid, and the question stays open; also
   * when the question is not open.
   */
  answer(key: string, value: unknown): boolean {
    const open = this.#open.get(key);
    if (open === undefined || !isAcceptable(open.question.method, open.question.params, value)) return false;
    this.#open.delete(key);
    open.resolve(value);
    return true;
  }

  /** Asks the same question under a new key. Clients may ignore a key that they have answered, even wrongly. */
  askAnew(key: string): void {
    const open = this.#open.get(key);
    if (open === undefined) return;
    this.#open.delete(key);
    open.question = { ...open.question, key: this.#newKey(open.question.method) };
    this.#add(open);
  }

  /** Closes a question without an answer: the promise that `ask` returned rejects with the reason. */
  refuse(key: string, reason: unknown): void {
    const open = this.#open.get(key);
    this.#open.delete(key);
    open?.reject(reason);
  }

  refuseAll(reason: string): void {
    for (const key of [...this.#open.keys()]) this.refuse(key, new Error(reason));
  }

  /** Closes all questions after the end of the call. Their promises stay pending; nobody awaits them. */
  close(): void {
    for (const { withdrawn } of this.#open.values()) withdrawn.abort("the call has ended");
    this.#open.clear();
  }

  #add(open: OpenQuestion): void {
    this.#open.set(open.question.key, open);
    this.#untold.push(open.question);
    this.#onAsked();
  }

  #newKey(method: ClientMethod, wanted?: string): string {
    let key = wanted;
    while (key === undefined || (key !== wanted && this.#keys.has(key))) {
      this.#asked++;
      key = `${method.slice(0, method.indexOf("/"))}-${this.#asked}`;
    }
    this.#keys.add(key);
    return key;
  }
}

/** Separates the key that the tool chose from the parameters, because the client must not see it there. */
function splitKey(params: object): { readonly wanted: string | undefined; readonly asked: object } {
  if (!("_meta" in params) || !isRecord(params._meta)) return { wanted: undefined, asked: params };
  const { _meta, ...rest } = params;
  const { [questionKey]: wanted, ...meta } = params._meta;
  const asked = Object.keys(meta).length === 0 ? rest : { ...rest, _meta: meta };
  return { wanted: typeof wanted === "string" && wanted !== "" ? wanted : undefined, asked };
}

/** Whether a value from outside is a valid answer. The content of a form must match its schema. */
function isAcceptable(
  method: ClientMethod,
  { requestedSchema }: { readonly requestedSchema?: unknown },
  value: unknown,
): boolean {
  if (!isRecord(value)) return false;
  const { action, content } = value;
  if (method === "roots/list") return Array.isArray(value.roots);
  if (method === "sampling/createMessage")
    return typeof value.role === "string" && typeof content === "object" && content !== null;
  if (action === "decline" || action === "cancel") return true;
  if (action !== "accept") return false;
  if (!isRecord(requestedSchema) || content === undefined) return true;
  try {
    const outcome = compileSchema(requestedSchema).validate(content);
    // Plain JSON Schema is checked synchronously, and no other schema can be sent to a client.
    return outcome instanceof Promise || outcome.ok;
  } catch {
    return true; // An invalid schema is the tool's fault, not the client's.
  }
}
