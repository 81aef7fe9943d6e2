import { ref } from "vue";
import { keep, kept } from "../text/kept.ts";

export const themes = ["system", "light", "dark"] as const;
export type Theme = (typeof themes)[number];

/** The name that `public/theme.js` reads before the first paint. */
const KEY = "toolrack.theme";
const systemIsDark = matchMedia("(prefers-color-scheme: dark)");

const stored = kept(KEY);
export const theme = ref<Theme>(themes.find((known) => known === stored) ?? "system");
/** What is shown, for what draws its own colours. */
export const isDark = ref(false);

export function setTheme(chosen: Theme): void {
  theme.value = chosen;
  keep(KEY, chosen === "system" ? undefined : chosen);
  apply();
}

function apply(): void {
  isDark.value = theme.value === "dark" || (theme.value === "system" && systemIsDark.matches);
  document.documentElement.dataset.theme = isDark.value ? "dark" : "light";
}

systemIsDark.addEventListener("change", apply);
apply();
