import type { SchemaIssue } from "@toolrack/core";

/** An answer that cannot be taken: the question stays open. */
export class UnfitAnswer extends Error {
  readonly issues: readonly SchemaIssue[];

  constructor(message: string, issues: readonly SchemaIssue[] = []) {
    super(message);
    this.name = "UnfitAnswer";
    this.issues = issues;
  }
}
