import { defineConfig } from "toolrack";

export default defineConfig({
  // Folders with tool files.
  tools: ["tools"],
});
