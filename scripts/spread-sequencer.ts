import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * Spreads the tests in a browser among all others. A browser and its server use every core
 * there is, while most other tests wait: side by side, two browsers would only hold each other up.
 */
export class SpreadSequencer extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isInBrowser = ({ project }: TestSpecification) => project.name === "e2e";
    return spread(
      sorted.filter(isInBrowser),
      sorted.filter((file) => !isInBrowser(file)),
    );
  }
}

/** One of `few` before each equal part of `many`, so that none of them is left to the end. */
export function spread<Item>(few: readonly Item[], many: readonly Item[]): Item[] {
  if (few.length === 0) return [...many];
  const part = Math.floor(many.length / few.length);
  const parts = few.flatMap((item, index) => [item, ...many.slice(index * part, (index + 1) * part)]);
  return [...parts, ...many.slice(few.length * part)];
}
