/** Whether everything is tested, as `npm run test:slow` does. */
export const isWholeDepth = process.env.TOOLRACK_TEST_DEPTH === "whole";

/** How many rounds a test makes: all of them with `npm run test:slow`, and a part of them with `npm test`. */
export function testDepth(all: number, part: number): number {
  return isWholeDepth ? all : part;
}
