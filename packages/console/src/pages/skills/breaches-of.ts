import { isRecord } from "../../schema/is-record.ts";

/** A rule of the format of skills that is broken: what its text is called, and what stands in it. */
export interface Breach {
  readonly key:
    | "name"
    | "noDescription"
    | "longDescription"
    | "longCompatibility"
    | "metadataTexts"
    | "notText"
    | "unknownKeys"
    | "manyLines";
  readonly named: Readonly<Record<string, string | number>>;
}

const LONGEST_DESCRIPTION = 1_024;
const LONGEST_COMPATIBILITY = 500;
const MOST_LINES = 500;
const knownKeys = ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];

/** What other programs that read skills would not take, or warn of. Here it works all the same. */
export function breachesOf(skill: {
  readonly name: string;
  readonly description: string;
  readonly instructions: string;
  readonly frontMatter: unknown;
}): Breach[] {
  const frontMatter = isRecord(skill.frontMatter) ? skill.frontMatter : {};
  const breaches: Breach[] = [];
  const add = (isBroken: boolean, key: Breach["key"], named: Breach["named"] = {}) => {
    if (isBroken) breaches.push({ key, named });
  };
  add(!isPlainName(String(frontMatter.name ?? skill.name)), "name");
  const { length } = [...skill.description];
  add(skill.description.trim() === "", "noDescription");
  add(length > LONGEST_DESCRIPTION, "longDescription", { count: length, most: LONGEST_DESCRIPTION });
  for (const key of ["license", "compatibility", "allowed-tools"]) {
    add(frontMatter[key] !== undefined && typeof frontMatter[key] !== "string", "notText", { key });
  }
  const { compatibility, metadata } = frontMatter;
  const isLong = typeof compatibility === "string" && [...compatibility].length > LONGEST_COMPATIBILITY;
  add(isLong, "longCompatibility", { most: LONGEST_COMPATIBILITY });
  const isTexts = isRecord(metadata) && Object.values(metadata).every((value) => typeof value === "string");
  add(metadata !== undefined && !isTexts, "metadataTexts");
  const unknown = Object.keys(frontMatter).filter((key) => !knownKeys.includes(key));
  add(unknown.length > 0, "unknownKeys", { names: unknown.join(", ") });
  const lines = skill.instructions.split("\n").length;
  add(lines > MOST_LINES, "manyLines", { count: lines, most: MOST_LINES });
  return breaches;
}

/** Lower-case letters and digits, joined by single dashes, at most 64. */
export function isPlainName(name: string): boolean {
  return name.length <= 64 && /^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(name.trim());
}
