/** What the sandbox refuses names Node's own options, which nobody here can set; this says what to do instead. */
const explanations: Readonly<Record<string, (what: string) => string>> = {
  // Begins as for a file that is not there, which is what it is to the tool, so that tests for that find it.
  FileSystemRead: (what) =>
    `ENOENT: ${what} is not in the sandbox. A tool reads its scratch directory and its packages only; give it the content as an argument.`,
  FileSystemWrite: (what) =>
    `EACCES: ${what} cannot be written. A tool writes into its scratch directory only, and keeps data in this.api.storage.`,
  ChildProcess: (what) =>
    `${what} was not started. A tool starts programs with await this.api.execute(command, args).`,
  WorkerThreads: () => "No thread was started: a tool is one thread.",
};

/** A better message for something that Node's permissions refused; nothing for any other error. */
export function explainRefusal(thrown: Readonly<Record<string, unknown>>): string | undefined {
  if (thrown.code !== "ERR_ACCESS_DENIED") return undefined;
  const { permission, resource } = thrown;
  const explain = explanations[String(permission)];
  return explain?.(typeof resource === "string" && resource !== "" ? JSON.stringify(resource) : "This");
}
