/** The longest message that a client may send, in bytes, whichever way it comes. */
export const longestMessage = 10 * 1024 * 1024;
