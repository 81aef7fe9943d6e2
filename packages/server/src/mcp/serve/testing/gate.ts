/**
 * A promise that a test's tool waits for until the test opens the gate. Tools find the gate by this name on
 * the global object.
 */
export class Gate {
  static readonly global = "testGate";
  #opened = Promise.withResolvers<void>();

  constructor() {
    Object.assign(globalThis, { [Gate.global]: this });
  }

  get promise(): Promise<void> {
    return this.#opened.promise;
  }

  open(): void {
    this.#opened.resolve();
  }
}

/** The fields of a tool that ends when the gate is open, whether it is cancelled or not. */
export const gatedTool = `name: "gated", execute: async () => { await globalThis.${Gate.global}.promise; return "done"; }`;
