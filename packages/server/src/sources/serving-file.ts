import type { FileVersion } from "./file-version.ts";
import type { LoadedModule } from "./loader/module-graph.ts";
import type { RecognisedFile } from "./recognised.ts";

/** A file that serves tools, and the version of it that does. */
export interface ServingFile {
  readonly version: FileVersion;
  readonly module: LoadedModule;
  readonly recognised: RecognisedFile;
}

export function namesOf({ recognised }: ServingFile): string[] {
  return recognised.tools.map((info) => info.name);
}
