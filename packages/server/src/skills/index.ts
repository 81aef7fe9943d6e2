export { type Expert, Experts, expertNamePattern } from "./experts.ts";
export { exportSkills, folderFiles, folderNames } from "./export.ts";
export { readZip, writeZip } from "./import/archive.ts";
export { type Imported, type ImportPlan, importSkills, keepImport, planImport } from "./import/import.ts";
export { readUpload } from "./import/upload.ts";
export {
  SkillInputError,
  SkillMissingError,
  SkillReadOnlyError,
  skillReasonCodes,
  skillToolInfo,
} from "./skill.ts";
export { SkillLibrary } from "./skill-library.ts";
export { SkillLoader, ToolManager } from "./tool-manager.ts";
export { openSkills, skillFoldersOf } from "./workspace-skills.ts";
