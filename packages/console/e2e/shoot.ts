import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";

const images = join(import.meta.dirname, "..", "..", "..", "docs", "images");

/** Pictures for the documentation, made when they are asked for. */
export async function shoot(page: Page, name: string): Promise<void> {
  if (!process.env.TOOLRACK_SCREENSHOTS) return;
  mkdirSync(images, { recursive: true });
  await page.screenshot({ path: join(images, `console-${name}.png`), animations: "disabled" });
}
