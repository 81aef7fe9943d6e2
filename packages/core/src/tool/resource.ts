export {
  defineResource as define,
  type FixedResourceConfig as FixedConfig,
  isResource as is,
  type ResourceBody as Body,
  type ResourceConfig as Config,
  type ResourceContents as Contents,
  type ResourceInfo as Info,
  type ResourceTemplateConfig as TemplateConfig,
} from "./offering.ts";
