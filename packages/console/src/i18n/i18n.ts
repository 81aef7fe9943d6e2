import { createI18n } from "vue-i18n";
import { keep, kept } from "../text/browser.ts";
import { type Texts, textsOf } from "./catalogue.ts";
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
export const messages = { ...common, ...tools, ...calls, ...schedules, ...settings, ...skills };

export const i18n = createI18n<[Texts<typeof messages>], Language, false>({
  legacy: false,
  locale: "en",
  fallbackLocale: false,
  messages: { en: textsOf(messages, 0), "zh-CN": textsOf(messages, 1) },
});

/** `t` translates a key and `te` tells whether a key exists. Components redraw when `language` changes. */
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

export function setLanguage(chosen: Language, options: { readonly remember: boolean }): void {
  language.value = chosen;
  document.documentElement.lang = chosen;
  if (options.remember) keep(KEY, chosen);
}
