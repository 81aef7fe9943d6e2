import type { Config } from "./config.ts";

const USUAL_DAYS = 30;
const USUAL_BYTES = 1024 ** 3;

/** How long, and how much of, what ended is kept. */
export function retentionOf({
  retention = {},
}: Pick<Config, "retention">): Required<NonNullable<Config["retention"]>> {
  const { days = USUAL_DAYS, maxBytes = USUAL_BYTES } = retention;
  return { days, maxBytes };
}
