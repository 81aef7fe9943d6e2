/**
 * What a record says about a name that comes from elsewhere. Every object also has members that nobody gave it, such as
 * `constructor`, and a server may name its tools like them.
 */
export function ownMember<Value>(record: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}
