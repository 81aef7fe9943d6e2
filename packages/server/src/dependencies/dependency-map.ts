import { createHash } from "node:crypto";
import { DependencyError } from "./dependency-error.ts";

/** Packages by name, each with the versions that will do: `{ lodash: "^4.17.21" }`. */
export type DependencyMap = Readonly<Record<string, string>>;

const packageName = /^(?:@[a-z0-9~_-][a-z0-9._~-]*\/)?[a-z0-9~_-][a-z0-9._~-]*$/i;
/** Versions, ranges and tags. No addresses, paths or repositories: those would bypass the registry. */
const range = /^[\w\s.^~<>=|*+-]{1,100}$/;
const MOST_PACKAGES = 100;

/** Takes what a tool declared: an object, or a list such as `["lodash@^4.17.21"]`. Throws `DependencyError`. */
export function parseDependencies(declared: unknown): DependencyMap {
  const entries = entriesOf(declared);
  if (entries.length > MOST_PACKAGES) {
    throw new DependencyError(
      `${entries.length} packages are declared; ${MOST_PACKAGES} are allowed.`,
      "Declare only the packages that the tool requires itself.",
    );
  }
  for (const [name, versions] of entries) check(name, versions);
  entries.sort(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(entries);
}

/** The same for the same packages on machines where the same files are installed for them. */
export function dependencyKey(dependencies: DependencyMap): string {
  const [major] = process.versions.node.split(".");
  return createHash("sha256")
    .update(JSON.stringify([Object.entries(dependencies), process.platform, process.arch, major]))
    .digest("hex")
    .slice(0, 32);
}

function entriesOf(declared: unknown): [string, string][] {
  if (declared === undefined || declared === null) return [];
  if (Array.isArray(declared)) return declared.map(fromText);
  if (typeof declared === "object") return Object.entries(declared);
  throw new DependencyError(
    `The dependencies are ${typeof declared === "string" ? "a text" : `a ${typeof declared}`}.`,
    'Declare them as an object such as { "lodash": "^4.17.21" }.',
  );
}

function fromText(text: unknown): [string, string] {
  if (typeof text !== "string") {
    throw new DependencyError(
      `The list of dependencies holds ${JSON.stringify(text)}, which is not a text.`,
      'Write each as a text such as "lodash@^4.17.21".',
    );
  }
  const at = text.indexOf("@", 1);
  return at === -1 ? [text, "*"] : [text.slice(0, at), text.slice(at + 1)];
}

function check(name: string, versions: unknown): void {
  if (!packageName.test(name) || name.length > 214) {
    throw new DependencyError(
      `"${name}" is not the name of a package.`,
      'Use the name from the registry, such as "lodash" or "@scope/name".',
    );
  }
  if (name in Object.prototype) {
    throw new DependencyError(
      `"${name}" cannot be installed: every object of JavaScript has a member of this name, which pnpm takes for the package.`,
      "Use another package.",
      { packageName: name },
    );
  }
  if (typeof versions !== "string" || !range.test(versions)) {
    throw new DependencyError(
      `The version of "${name}" is ${JSON.stringify(versions)}, which is no version, range or tag.`,
      'Use a range such as "^4.17.21". Addresses, paths and repositories are not installed.',
      { packageName: name },
    );
  }
}
