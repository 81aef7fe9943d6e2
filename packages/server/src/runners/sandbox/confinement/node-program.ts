import { SandboxError } from "../sandbox-error.ts";

/** Give Node the code itself. */
const evaluating: Readonly<Record<string, readonly string[]>> = {
  "-e": [],
  "--eval": [],
  "-p": ["--print"],
  "--print": ["--print"],
};

/**
 * The arguments for Node where its own permissions are all that holds a program: a script or code, and what comes after
 * is the program's. An option of Node could take the permissions off, so all others are refused.
 */
export function nodeArguments(label: string, [first, ...rest]: readonly string[]): string[] {
  if (first === undefined) return [];
  const flags = Object.hasOwn(evaluating, first) ? evaluating[first] : undefined;
  if (flags !== undefined) {
    const [code = "", ...args] = rest;
    return [...flags, `--eval=${code}`, "--", ...args];
  }
  if (!first.startsWith("-")) return ["--", first, ...rest];
  throw new SandboxError(
    "sandbox_refused",
    `${label} wants to start Node with the option ${first.split("=")[0]}. At the reduced isolation of this server a script can be started, or code with -e or -p, and no other option of Node be given. Install bubblewrap to use all of them.`,
  );
}

/**
 * Variables that make Node, the loader of programs, OpenSSL or the shell before it run or load something else. A shell
 * may take even a function from a variable, whose name then has signs in it that no other name has.
 */
const steering = /^(node_|ld_|dyld_|openssl_|gconv_|glibc_|bash|shellopts$|nlspath$|locpath$)/i;
const plainName = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** A program's own variables, without those that steer what runs it. */
export function nodeEnvironment(environment: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(environment).filter(([name]) => plainName.test(name) && !steering.test(name)),
  );
}
