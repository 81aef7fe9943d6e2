import { monitorEventLoopDelay } from "node:perf_hooks";
import type { RackEvent } from "@toolrack/core";
import type { UsageTotals } from "../store/index.ts";

/** Values that are read when metrics are rendered. */
interface Readings {
  readonly activeCalls: number;
  readonly tools: { readonly enabled: number; readonly disabled: number };
  readonly failedFiles: number;
  readonly feedReaders: number;
  readonly feedDropped: number;
  readonly recordFailures: number;
  /** Records in memory that are not stored yet. */
  readonly held: { readonly records: number; readonly bytes: number };
  /** Log lines in memory that are not written yet, and those that were lost. */
  readonly log: { readonly held: number; readonly lost: number };
  /** What models were asked, by caller and model. */
  readonly usage: readonly (UsageTotals & { readonly caller: string; readonly model: string })[];
}

interface ToolCounts {
  completed: number;
  /** Calls that their callers gave up; no failures. */
  cancelled: number;
  /** Failed calls by the code of their error. */
  readonly errors: Map<string, number>;
  /** For each bound, how many calls took at most that long, and longer than the bound before. */
  readonly durations: number[];
  /** The duration of all calls together. */
  seconds: number;
}

/**
 * The upper bounds of the histogram of durations, in seconds: from a tool that answers from memory to one
 * that waits for its time limit.
 */
const bounds = [
  0.001,
  0.005,
  0.01,
  0.05,
  0.1,
  0.25,
  0.5,
  1,
  2.5,
  5,
  10,
  30,
  60,
  120,
  Number.POSITIVE_INFINITY,
];

/** Calls of unknown tools are counted under this name, because callers could invent names without end. */
const UNKNOWN = "(unknown)";
/** So many tools have metrics of their own, those that were called first: each has twenty lines. All others share one name. */
const MOST_TOOLS = 1_000;
const OTHERS = "(other)";
const NANOSECOND = 1e-9;

/** Counts calls and requests, and renders them in Prometheus format. */
export class Metrics {
  readonly #tools = new Map<string, ToolCounts>();
  readonly #requests = new Map<string, { readonly labels: Labels; value: number }>();
  readonly #delay = monitorEventLoopDelay({ resolution: 20 });

  constructor() {
    this.#delay.enable();
  }

  readonly listen = (event: RackEvent): void => {
    if (event.type !== "record") return;
    const { record } = event;
    const code = record.error?.code;
    const tool = code === "tool_not_found" && record.runDuration === 0 ? UNKNOWN : record.toolName;
    const counts = this.#tools.get(tool) ?? this.#newCounts(tool);
    if (code === "cancelled") {
      // A cancelled call is left out of the durations: its duration only says when the caller gave up.
      counts.cancelled++;
      return;
    }
    const seconds = (record.duration - (record.flags?.waited ?? 0)) / 1000;
    let at = 0;
    while (seconds > bounds[at]!) at++;
    counts.durations[at]!++;
    counts.seconds += seconds;
    if (code === undefined) counts.completed++;
    else counts.errors.set(code, (counts.errors.get(code) ?? 0) + 1);
  };

  #newCounts(tool: string): ToolCounts {
    if (this.#tools.size >= MOST_TOOLS && tool !== UNKNOWN && tool !== OTHERS)
      return this.#tools.get(OTHERS) ?? this.#newCounts(OTHERS);
    const counts = {
      completed: 0,
      cancelled: 0,
      errors: new Map(),
      durations: new Array(bounds.length).fill(0),
      seconds: 0,
    };
    this.#tools.set(tool, counts);
    return counts;
  }

  countRequest(method: string, route: string, status: number): void {
    const key = `${status} ${method} ${route}`;
    const found = this.#requests.get(key);
    if (found !== undefined) found.value++;
    else this.#requests.set(key, { labels: { method, route, status }, value: 1 });
  }

  /** `mayUse` decides which tools are shown. */
  render(readings: Readings, mayUse: (toolName: string) => boolean): string {
    const tools = [...this.#tools].filter(([tool]) => tool === UNKNOWN || mayUse(tool));
    const { activeCalls, failedFiles, recordFailures, held, log, feedReaders, feedDropped } = readings;
    const { enabled, disabled } = readings.tools;
    const late = "How late the event loop was since this was last read.";
    const text = [
      ...callMetrics(tools),
      ...usageMetrics(readings.usage),
      metric("gauge", "toolrack_calls_active", "Calls under way.", activeCalls),
      metric("gauge", "toolrack_tools", "Tools on the rack.", [
        { labels: { state: "enabled" }, value: enabled },
        { labels: { state: "disabled" }, value: disabled },
      ]),
      metric("gauge", "toolrack_files_failed", "Tool files that could not be loaded.", failedFiles),
      metric("counter", "toolrack_record_failures_total", "Records that the store refused.", recordFailures),
      metric("gauge", "toolrack_records_held", "Records that wait in memory for the store.", held.records),
      metric("gauge", "toolrack_records_held_bytes", "Bytes of the records that wait.", held.bytes),
      metric("gauge", "toolrack_log_lines_held", "Lines that wait in memory for the log.", log.held),
      metric("counter", "toolrack_log_lines_lost_total", "Lines that the log has no room for.", log.lost),
      metric("gauge", "toolrack_event_readers", "Readers of the event stream.", feedReaders),
      metric(
        "counter",
        "toolrack_event_readers_dropped_total",
        "Readers that took nothing any more.",
        feedDropped,
      ),
      metric("counter", "toolrack_http_requests_total", "Requests answered.", this.#requests.values()),
      metric("gauge", "toolrack_event_loop_lag_seconds", late, this.#lag()),
      metric("gauge", "process_resident_memory_bytes", "Memory of the process.", process.memoryUsage.rss()),
      metric("gauge", "process_uptime_seconds", "How long the process has been running.", process.uptime()),
    ];
    return text.join("");
  }

  close(): void {
    this.#delay.disable();
  }

  #lag(): Sample[] {
    const delay = this.#delay;
    const seconds = (nanoseconds: number) => (delay.count === 0 ? 0 : nanoseconds * NANOSECOND);
    const samples = [
      { labels: { quantile: "0.5" }, value: seconds(delay.percentile(50)) },
      { labels: { quantile: "0.99" }, value: seconds(delay.percentile(99)) },
      { labels: { quantile: "1" }, value: seconds(delay.max) },
    ];
    delay.reset();
    return samples;
  }
}

function callMetrics(tools: readonly (readonly [string, ToolCounts])[]): string[] {
  const calls: Sample[] = [];
  const failures: Sample[] = [];
  const durations: Sample[] = [];
  for (const [tool, counts] of tools) {
    let failed = 0;
    for (const [code, value] of counts.errors) {
      failed += value;
      failures.push({ labels: { tool, code }, value });
    }
    calls.push({ labels: { tool, status: "completed" }, value: counts.completed });
    calls.push({ labels: { tool, status: "error" }, value: failed });
    calls.push({ labels: { tool, status: "cancelled" }, value: counts.cancelled });
    let value = 0;
    for (const [at, bound] of bounds.entries()) {
      value += counts.durations[at]!;
      const le = bound === Number.POSITIVE_INFINITY ? "+Inf" : bound;
      durations.push({ suffix: "_bucket", labels: { tool, le }, value });
    }
    durations.push({ suffix: "_sum", labels: { tool }, value: counts.seconds });
    durations.push({ suffix: "_count", labels: { tool }, value });
  }
  const codes = "Calls that failed, by the code of the error.";
  return [
    metric("counter", "toolrack_calls_total", "Calls that ended.", calls),
    metric("counter", "toolrack_call_failures_total", codes, failures),
    metric(
      "histogram",
      "toolrack_call_duration_seconds",
      "From arrival to end of a call that was not cancelled, without waiting for a person.",
      durations,
    ),
  ];
}

function usageMetrics(usage: Readings["usage"]): string[] {
  const samples = (read: (totals: UsageTotals) => number, labels: Labels = {}) =>
    usage.map((one) => ({ labels: { caller: one.caller, model: one.model, ...labels }, value: read(one) }));
  const tokens = [
    ...samples(({ promptTokens, cachedTokens }) => promptTokens - cachedTokens, { kind: "prompt" }),
    ...samples(({ cachedTokens }) => cachedTokens, { kind: "cached_prompt" }),
    ...samples(({ completionTokens }) => completionTokens, { kind: "completion" }),
  ];
  const requests = samples((totals) => totals.requests);
  const estimated = samples((totals) => totals.estimated);
  const cost = samples((totals) => totals.cost);
  return [
    metric("counter", "toolrack_model_requests_total", "Answers of models.", requests),
    metric("counter", "toolrack_model_requests_estimated_total", "Those with estimated tokens.", estimated),
    metric("counter", "toolrack_model_tokens_total", "Tokens that models read and wrote.", tokens),
    metric(
      "counter",
      "toolrack_model_cost_total",
      "By the prices of the config, or else as providers tell.",
      cost,
    ),
  ];
}

type Labels = Readonly<Record<string, string | number>>;

interface Sample {
  /** Suffix of the metric's name, such as `_bucket`. */
  readonly suffix?: string;
  readonly labels?: Labels;
  readonly value: number;
}

/** One metric with its samples, or its only value, in Prometheus text format. */
function metric(
  type: "counter" | "gauge" | "histogram",
  name: string,
  help: string,
  values: Iterable<Sample> | number,
): string {
  const samples = typeof values === "number" ? [{ value: values }] : values;
  let text = `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`;
  for (const { suffix = "", labels = {}, value } of samples) {
    const pairs = Object.entries(labels).map(([label, of]) => `${label}="${escaped(String(of))}"`);
    text += `${name}${suffix}${pairs.length === 0 ? "" : `{${pairs.join(",")}}`} ${value}\n`;
  }
  return text;
}

function escaped(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
