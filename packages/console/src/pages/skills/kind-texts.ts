/** What the two lists of the page are called. */
export const kindTexts = {
  skills: { short: "skills.short", add: "skills.add", none: "skills.none", choose: "skills.choose" },
  experts: { short: "experts.short", add: "experts.add", none: "experts.none", choose: "experts.choose" },
} as const;
