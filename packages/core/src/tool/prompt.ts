export {
  definePrompt as define,
  isPrompt as is,
  type PromptArgument as Argument,
  type PromptConfig as Config,
  type PromptInfo as Info,
  type PromptMessage as Message,
} from "./offering.ts";
