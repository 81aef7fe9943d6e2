/** How long clients may go on with a list that they have. They are told of changes, when they listen. */
export const listCache = { ttlMs: 30_000, cacheScope: "private" } as const;
