import { useI18n } from "vue-i18n";
import type { ApiError } from "../api/api-error.ts";

/** What a person is told of a failure: what the server said, unless there are words of this language for it. */
export function useErrorText(): (error: ApiError) => string {
  const { t, te } = useI18n();
  return ({ code, status, message }) => {
    if (code === "unreachable") return t("errors.unreachable");
    if (code === "forbidden") return t("errors.forbidden");
    if (code === "unexpected") return t("errors.unexpected", { problem: message });
    if (code === "unreadable") return [t("errors.unreadable", { status }), message].join("\n").trim();
    const known = `errors.codes.${code}`;
    return te(known) ? t(known) : message || code;
  };
}
