/** There is nobody to ask, or no such model. The message says what to do about it. */
export class ModelMissing extends Error {
  readonly code: "provider_missing" | "model_not_found";

  constructor(code: ModelMissing["code"], message: string) {
    super(message);
    this.name = "ModelMissing";
    this.code = code;
  }
}
