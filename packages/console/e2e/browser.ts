import { existsSync } from "node:fs";
import { type Browser, chromium, type Page, type Request } from "playwright-core";
import type { ConsoleServer } from "./console-server.ts";

const places = [
  process.env.CHROMIUM_PATH,
  "/usr/bin/chromium-headless-shell",
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
];

/** Where a browser is, if there is one. Where it must be there, its absence is a failure and no skip. */
export const chromiumPath = places.find((path) => path !== undefined && existsSync(path));
if (chromiumPath === undefined) {
  const message =
    "SKIPPED: the browser tests of the console. There is no chromium; `apt-get install chromium` brings it, or CHROMIUM_PATH names it.";
  if (process.env.CI) throw new Error(message);
  console.warn(`\n${message}\n`);
}

let opened: Promise<Browser> | undefined;

/** One browser for all files of a worker, until the worker ends: each visit has a profile of its own in it. */
export function openBrowser(): Promise<Browser> {
  opened ??= chromium.launch({
    ...(chromiumPath === undefined ? {} : { executablePath: chromiumPath }),
    // Containers let no user namespaces be made, which the browser's own sandbox is built on.
    args: ["--no-sandbox"],
  });
  return opened;
}

export interface Visit {
  readonly page: Page;
  /** What went wrong in the page, and requests that left the server. */
  readonly trouble: string[];
}

export interface VisitOptions {
  readonly path?: string;
  readonly language?: "en" | "zh-CN";
  readonly theme?: "light" | "dark";
  readonly width?: number;
}

/** Opens the console the way its printed address does, with a browser that has never seen it. */
export async function visit(
  browser: Browser,
  server: ConsoleServer,
  options: VisitOptions = {},
): Promise<Visit> {
  const { path = "/", language = "en", theme = "light", width = 1360 } = options;
  const context = await browser.newContext({
    viewport: { width, height: 850 },
    locale: language,
    colorScheme: theme,
    reducedMotion: "reduce",
  });
  const page = await context.newPage();
  page.setDefaultTimeout(Number(process.env.E2E_TIMEOUT ?? 120_000));
  watchRequests(page);
  const trouble: string[] = [];
  page.on("pageerror", (error) => trouble.push(error.message));
  page.on("console", (message) => {
    const text = message.text();
    if (/Content Security Policy/.test(text)) trouble.push(text);
  });
  page.on("request", (request) => {
    const { protocol, origin } = new URL(request.url());
    if (!["data:", "blob:"].includes(protocol) && origin !== server.url)
      trouble.push(`A request left: ${request.url()}`);
  });
  await page.goto(`${server.url}${path}#token=${server.token}`);
  await page
    .getByTestId("connection")
    .getByText(language === "en" ? "Live" : "实时")
    .waitFor({ state: "attached" });
  return { page, trouble };
}

/** The requests of each page, those that are under way apart. An event stream never ends, so it is left out. */
const requestsOf = new WeakMap<Page, { count: number; readonly open: Set<Request> }>();

function watchRequests(page: Page): void {
  const requests = { count: 0, open: new Set<Request>() };
  requestsOf.set(page, requests);
  page.on("request", (request) => {
    requests.count++;
    if (!request.url().endsWith("/api/events")) requests.open.add(request);
  });
  page.on("requestfinished", (request) => requests.open.delete(request));
  page.on("requestfailed", (request) => requests.open.delete(request));
}

/** Resolves when no request of the page is under way, and the browser has nothing left to do for it. */
export async function settled(page: Page): Promise<void> {
  const requests = requestsOf.get(page);
  for (let before = -1; requests !== undefined && (before < requests.count || requests.open.size > 0); ) {
    before = requests.count;
    // A browser that draws nothing may call back late or never; the limit is for it.
    await page.evaluate(() => new Promise((done) => requestIdleCallback(() => done(true), { timeout: 500 })));
  }
}
