import { createI18n } from "vue-i18n";
import { keep, kept } from "../text/index.ts";
import type { en } from "./en.ts";

export const languages = [
  { code: "en", name: "English" },
  { code: "zh-CN", name: "简体中文" },
] as const;
export type Language = (typeof languages)[number]["code"];

const KEY = "toolrack.language";

const loaders: Record<Language, () => Promise<Messages>> = {
  en: async () => (await import("./en.ts")).en,
  "zh-CN": async () => (await import("./zh-cn.ts")).zhCN,
};

export const i18n = createI18n({ legacy: false, locale: "en", fallbackLocale: false, messages: {} });

/** What the person chose, or else the first of the browser's languages that there is. */
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

export async function setLanguage(
  language: Language,
  options: { readonly remember: boolean },
): Promise<void> {
  // Message objects are typed by Messages; vue-i18n's own type asks for an index signature that they do not have.
  i18n.global.setLocaleMessage(language, (await loaders[language]()) as never);
  // The type of the locale is narrowed to the languages named at creation, of which there are none yet.
  i18n.global.locale.value = language as never;
  document.documentElement.lang = language;
  if (options.remember) keep(KEY, language);
}

/** The texts of the console: the keys of the English ones, in any language. */
export type Messages = Texts<typeof en>;

type Texts<Shape> = { readonly [Key in keyof Shape]: Shape[Key] extends string ? string : Texts<Shape[Key]> };
