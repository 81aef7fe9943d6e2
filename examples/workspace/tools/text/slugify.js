// Contract 1: the folder is the group, so this is internal_text_slugify.
module.exports = {
  name: "slugify",
  description: "Turns a title into a short name for addresses.",
  inputSchema: {
    type: "object",
    properties: { title: { type: "string", description: "The title, in any language." } },
    required: ["title"],
  },
  metadata: { readOnly: true },
  handler: async (args, ctx) => {
    const slug = args.title
      .normalize("NFKD")
      .replace(/\p{M}/gu, "")
      .toLowerCase()
      .replace(/[^\p{L}\p{N}]+/gu, "-")
      .replace(/^-+|-+$/g, "");
    ctx.logger.debug(`slugified ${args.title.length} characters`);
    return { content: [{ type: "text", text: slug }] };
  },
};
