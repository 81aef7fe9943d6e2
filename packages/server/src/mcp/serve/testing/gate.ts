/** Where a tool of a test waits until the test lets it go on; tools find it at this name on the global object. */
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

/** The fields of a tool that answers when the gate is open, whether it is cancelled or not. */
export const gatedTool = `name: "gated", execute: async () => { await globalThis.${Gate.global}.promise; return "done"; }`;
