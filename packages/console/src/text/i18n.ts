import { createI18n } from "vue-i18n";
import { keep, kept } from "./browser.ts";
import { calls } from "./messages/calls.ts";
import { common } from "./messages/common.ts";
import { schedules } from "./messages/schedules.ts";
import { settings } from "./messages/settings.ts";
import { skills } from "./messages/skills.ts";
import { tools } from "./messages/tools.ts";

export const languages = [
  { code: "en", name: "English" },
  { code: "zh-CN", name: "简体中文" },
] as const;
type Language = (typeof languages)[number]["code"];

const KEY = "toolrack.language";
/** Texts by key, each in English and in Chinese; `|` separates singular and plural. */
export const messages = {
  ...common,
  ...tools,
  ...calls,
  ...schedules,
  ...settings,
  ...skills,
} satisfies Catalogue;

export const i18n = createI18n<[Texts<typeof messages>], Language, false>({
  legacy: false,
  locale: "en",
  fallbackLocale: false,
  messages: { en: textsOf(messages, 0), "zh-CN": textsOf(messages, 1) },
});

/** `t` translates a key and `te` tells whether a key exists. Components redraw when `language` changes. */
export const { t, te, locale: language } = i18n.global;

/** Values to choose from, each with the text `PREFIX.VALUE`, and with a number if it has one. */
export function choicesOf<Value extends string>(
  prefix: string,
  values: readonly Value[],
  counts: { readonly [Counted in Value]?: number } = {},
) {
  return values.map((value) => ({ value, label: t(`${prefix}.${value}`), count: counts[value] }));
}

/** The chosen language, or else the first supported language of the browser. */
export function preferredLanguage(): Language {
  const stored = kept(KEY);
  const chosen = languages.find(({ code }) => code === stored);
  if (chosen !== undefined) return chosen.code;
  for (const wanted of navigator.languages) {
    if (wanted.toLowerCase().startsWith("zh")) return "zh-CN";
    if (wanted.toLowerCase().startsWith("en")) return "en";
  }
  return "en";
}

export function setLanguage(chosen: Language, options: { readonly remember: boolean }): void {
  language.value = chosen;
  document.documentElement.lang = chosen;
  if (options.remember) keep(KEY, chosen);
}

interface Catalogue {
  readonly [key: string]: readonly [english: string, chinese: string] | Catalogue;
}

/** The texts of a catalogue in one language. */
type Texts<Part> = {
  readonly [Key in keyof Part]: Part[Key] extends readonly [string, string] ? string : Texts<Part[Key]>;
};

export function textsOf<Part extends Catalogue>(catalogue: Part, language: 0 | 1): Texts<Part> {
  const texts = Object.entries(catalogue).map(([key, part]) => [
    key,
    isText(part) ? part[language] : textsOf(part, language),
  ]);
  return Object.fromEntries(texts) as Texts<Part>; // Every key stays, and every pair becomes one text.
}

function isText(part: Catalogue[string]): part is readonly [string, string] {
  return Array.isArray(part);
}
