import { createI18n } from "vue-i18n";
import { keep, kept } from "../text/browser.ts";
import type { Messages } from "./en.ts";

export const languages = [
  { code: "en", name: "English" },
  { code: "zh-CN", name: "简体中文" },
] as const;
type Language = (typeof languages)[number]["code"];

const KEY = "toolrack.language";

const loaders: Record<Language, () => Promise<Messages>> = {
  en: async () => (await import("./en.ts")).en,
  "zh-CN": async () => (await import("./zh-cn.ts")).zhCN,
};

export const i18n = createI18n<[Messages], Language, false>({
  legacy: false,
  locale: "en",
  fallbackLocale: false,
});

/** Translates a key, and tells whether it exists. Components redraw when the language changes. */
export const { t, te, locale: language } = i18n.global;

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

export async function setLanguage(chosen: Language, options: { readonly remember: boolean }): Promise<void> {
  i18n.global.setLocaleMessage(chosen, await loaders[chosen]());
  language.value = chosen;
  document.documentElement.lang = chosen;
  if (options.remember) keep(KEY, chosen);
}
