// The modules that Toolrack provides to tool files, for editors and the compiler.
declare module "@opencode-ai/plugin" {
  import type { tool as define } from "@toolrack/core";
  import type { z } from "zod";
  export const tool: typeof define & { readonly schema: typeof z };
}

declare module "*/handler/ToolHandler.js" {
  export function callToolHandler(
    request: { params: { name: string; arguments?: object; tid?: string } },
    caller?: string,
  ): Promise<{ content: { type: string; text?: unknown }[]; structuredContent?: unknown; isError?: boolean }>;
}
