export interface InputIssue {
  /** The field, as people write it: `usage`, `skills[0]`. */
  readonly path: string;
  readonly message: string;
}

/** What was asked for cannot be: every issue names the field that is wrong. */
export class SkillInputError extends Error {
  override readonly name = "SkillInputError";
  readonly issues: readonly InputIssue[];

  constructor(issues: readonly InputIssue[]) {
    super(issues.map(({ path, message }) => `${path}: ${message}`).join("; "));
    this.issues = issues;
  }

  static of(path: string, message: string): SkillInputError {
    return new SkillInputError([{ path, message }]);
  }
}

/** There is no such skill, tool or expert, or it cannot be changed here. */
export class SkillMissingError extends Error {
  override readonly name = "SkillMissingError";
  readonly what: "skill" | "skill_tool" | "expert";

  constructor(what: SkillMissingError["what"], message: string) {
    super(message);
    this.what = what;
  }
}

/** The skill lives in a folder: whoever wants to change it changes the folder. */
export class SkillReadOnlyError extends Error {
  override readonly name = "SkillReadOnlyError";
}
