import { useI18n } from "vue-i18n";
import type { LoopVerdict } from "../api/types.ts";

/** Says in the language of the console what repeats, how often and since when. What it does not know the server says. */
export function useLoopEvidence(): (verdict: LoopVerdict, tool: string) => string {
  const { t, te } = useI18n();
  return ({ signal, count, period, evidence = "" }, tool) => {
    const since = /#(\d+)/.exec(evidence)?.[1];
    const key = `loops.evidence.${signal}`;
    if (since === undefined || !te(key)) return evidence || tool;
    return t(key, { count, period: period ?? 1, tool, since });
  };
}
