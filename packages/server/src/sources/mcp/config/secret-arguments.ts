import { isSecretName } from "./is-secret-name.ts";

/** The part of an argument whose name says that it is a secret. */
export interface SecretArgument {
  /** Which of the arguments. */
  readonly index: number;
  readonly name: string;
  /** Where in the argument the value begins. */
  readonly start: number;
}

/** `--name=`, `NAME=`, `Name: ` or `Name:`, before a value. In small letters the last one may be a scope (`auth:read`). */
const assignment = /^(?:-{0,2}([\w.-]+)(?:=|: )|([A-Z][\w-]*):)(?=.)/s;
const option = /^--?([\w.-]+)$/;
/** What follows such an option is no value of it. */
const withoutValue = /^(?:no|without|disable|enable|skip)-/;
/** The next option, and not a value that begins with a dash by chance. */
const nextOption = /^(?:--[A-Za-z]|-[A-Za-z](?:=|$)|-[a-z-]+(?:=|$))/;

/**
 * In their order. One argument may be secret as a whole and hold a secret: `--auth-header "X-Api-Key: …"`. Of an entry that
 * is not valid, arguments may be anything.
 */
export function secretArguments(args: readonly unknown[]): SecretArgument[] {
  return args.flatMap((argument, index) => {
    const name = optionBefore(args, index);
    const value = typeof argument === "string" ? valueIn(argument) : undefined;
    return [
      ...(name === undefined ? [] : [{ index, name, start: 0 }]),
      ...(value === undefined ? [] : [{ index, ...value }]),
    ];
  });
}

/** Also in a value: `--header=X-Api-Key: …`, `--env=API_KEY=…`. */
function valueIn(argument: string): Pick<SecretArgument, "name" | "start"> | undefined {
  let start = 0;
  for (;;) {
    const found = assignment.exec(argument.slice(start));
    if (found === null) return undefined;
    const [whole, variable, header = ""] = found;
    const name = variable ?? header;
    start += whole.length;
    if (isSecretName(name)) return { name, start };
  }
}

/** The option whose value the argument is. */
function optionBefore(args: readonly unknown[], index: number): string | undefined {
  const [before, argument] = [args[index - 1], args[index]];
  if (typeof before !== "string") return undefined;
  if (typeof argument === "string" && nextOption.test(argument)) return undefined;
  const [, name] = option.exec(before) ?? [];
  return name !== undefined && !withoutValue.test(name) && isSecretName(name) ? name : undefined;
}
