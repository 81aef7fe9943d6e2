/** A package of npm and the version of it that is wanted, which may be a range or a tag. */
export interface PackageSpec {
  readonly name: string;
  readonly version: string;
}

const form = /^((?:@[a-z0-9~._-]+\/)?[a-z0-9~._-]+)@([A-Za-z0-9~^.*+_-]+)$/i;

/** Reads `name@version`. Throws an `Error` that says what to write. */
export function packageSpec(text: string): PackageSpec {
  const [, name, version] = form.exec(text) ?? [];
  if (name !== undefined && version !== undefined) return { name, version };
  throw new Error(
    `"${text}" is no package to install. Write its name and version: "${example(text)}@1.2.3".`,
  );
}

/** What was meant, where it is a name. */
function example(text: string): string {
  return form.test(`${text}@1`) ? text : "some-server";
}
