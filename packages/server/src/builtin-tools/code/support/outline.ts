import type { ParseResult } from "@babel/parser";

export interface CodeSymbol {
  /** `function`, `class`, `interface`, `type`, `enum`, `namespace`, `variable`, or the kind of a member. */
  readonly kind: string;
  readonly name: string;
  readonly line: number;
  readonly endLine: number;
  readonly exported: boolean;
  /** The declaration up to its body, of functions and methods. */
  readonly signature?: string;
  /** Methods and properties, members of an enum, what a namespace declares. */
  readonly members?: readonly CodeSymbol[];
}

export interface Import {
  readonly from: string;
  /** As written: `x`, `a as b`, `* as all`; empty for an import without names. */
  readonly names: readonly string[];
  readonly line: number;
}

export interface Outline {
  readonly symbols: readonly CodeSymbol[];
  readonly imports: readonly Import[];
  /** The exported names; `* from "x"` for all exports of another file. */
  readonly exports: readonly string[];
}

type Statement = ParseResult["program"]["body"][number];
type Of<Type extends Statement["type"]> = Extract<Statement, { type: Type }>;
type ClassBody = Of<"ClassDeclaration">["body"];
type Declarator = Of<"VariableDeclaration">["declarations"][number];
type Expression = NonNullable<Declarator["init"]>;
type Located = Pick<Statement, "start" | "end" | "loc">;

const LONGEST_SIGNATURE = 200;

/** The declarations, imports and exports of a parsed file: the top level, and the members of classes and namespaces. */
export function outline(file: ParseResult, text: string): Outline {
  const reader = new OutlineReader(text);
  const symbols = file.program.body.flatMap((statement) => reader.statement(statement, false));
  const exported = new Set(reader.locallyExported);
  return {
    symbols: symbols.map((symbol) => (exported.has(symbol.name) ? { ...symbol, exported: true } : symbol)),
    imports: reader.imports,
    exports: [...new Set(reader.exports)],
  };
}

class OutlineReader {
  readonly imports: Import[] = [];
  readonly exports: string[] = [];
  /** Local names of `export { x }` and `export default x`. */
  readonly locallyExported: string[] = [];
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  statement(node: Statement, exported: boolean): CodeSymbol[] {
    switch (node.type) {
      case "FunctionDeclaration":
      case "TSDeclareFunction":
        return [this.#function(node, node.id?.name ?? "default", exported)];
      case "ClassDeclaration":
        return [this.#class(node, node.id?.name ?? "default", exported, node.body)];
      case "VariableDeclaration":
        return node.declarations.flatMap((declarator) => this.#variable(declarator, exported));
      case "TSInterfaceDeclaration":
        return [this.#interface(node, exported)];
      case "TSTypeAliasDeclaration":
      case "TypeAlias":
        return [this.#symbol("type", node.id.name, node, exported)];
      case "InterfaceDeclaration":
        return [this.#symbol("interface", node.id.name, node, exported)];
      case "TSEnumDeclaration": {
        const members = node.body.members.map((one) => this.#symbol("member", this.#key(one.id), one, false));
        return [{ ...this.#symbol("enum", node.id.name, node, exported), members }];
      }
      case "TSModuleDeclaration": {
        const inner = new OutlineReader(this.#text);
        const body = node.body?.type === "TSModuleBlock" ? node.body.body : [];
        const members = body.flatMap((statement) => inner.statement(statement, false));
        return [{ ...this.#symbol("namespace", this.#key(node.id), node, exported), members }];
      }
      case "ImportDeclaration":
        this.#import(node.source.value, node.specifiers.map(importName), node);
        return [];
      case "TSImportEqualsDeclaration":
        if (node.moduleReference.type === "TSExternalModuleReference")
          this.#import(node.moduleReference.expression.value, [node.id.name], node);
        return [];
      case "ExportNamedDeclaration":
        return this.#exportNamed(node);
      case "ExportDefaultDeclaration":
        return this.#exportDefault(node);
      case "ExportAllDeclaration":
        this.exports.push(`* from "${node.source.value}"`);
        return [];
      case "TSExportAssignment":
        this.exports.push("=");
        if (node.expression.type === "Identifier") this.locallyExported.push(node.expression.name);
        return [];
      case "ExpressionStatement":
        this.#commonJs(node.expression);
        return [];
      default:
        return [];
    }
  }

  #symbol(kind: string, name: string, node: Located, exported: boolean): CodeSymbol {
    return { kind, name, line: lineOf(node), endLine: node.loc?.end.line ?? 0, exported };
  }

  #function(
    node: Located & { body?: Located | null },
    name: string,
    exported: boolean,
    kind: string = "function",
  ): CodeSymbol {
    return { ...this.#symbol(kind, name, node, exported), signature: this.#signature(node, node.body) };
  }

  #class(node: Located, name: string, exported: boolean, body: ClassBody): CodeSymbol {
    const members = body.body.flatMap((member): CodeSymbol[] => {
      switch (member.type) {
        case "ClassMethod":
        case "ClassPrivateMethod":
        case "TSDeclareMethod":
          return [this.#function(member, this.#key(member.key), false, methodKinds[member.kind])];
        case "ClassProperty":
        case "ClassPrivateProperty":
        case "ClassAccessorProperty":
          return isFunction(member.value)
            ? [this.#function({ ...member, body: member.value.body }, this.#key(member.key), false, "method")]
            : [this.#symbol("property", this.#key(member.key), member, false)];
        default:
          return [];
      }
    });
    return { ...this.#symbol("class", name, node, exported), members };
  }

  #variable(declarator: Declarator, exported: boolean): CodeSymbol[] {
    const { id, init } = declarator;
    const name = id.type === "Identifier" ? id.name : this.#words(id);
    const required = requiredModule(init);
    if (required !== undefined) {
      this.#import(required, [name], declarator);
      return [];
    }
    if (isFunction(init)) return [this.#function({ ...declarator, body: init.body }, name, exported)];
    if (init?.type === "ClassExpression") return [this.#class(declarator, name, exported, init.body)];
    return [this.#symbol("variable", name, declarator, exported)];
  }

  #interface(node: Of<"TSInterfaceDeclaration">, exported: boolean): CodeSymbol {
    const members = node.body.body.flatMap((member): CodeSymbol[] => {
      if (member.type !== "TSMethodSignature" && member.type !== "TSPropertySignature") return [];
      const kind = member.type === "TSMethodSignature" ? "method" : "property";
      return [this.#symbol(kind, this.#key(member.key), member, false)];
    });
    return { ...this.#symbol("interface", node.id.name, node, exported), members };
  }

  #import(from: string, names: readonly string[], node: Located): void {
    this.imports.push({ from, names, line: lineOf(node) });
  }

  #exportNamed(node: Of<"ExportNamedDeclaration">): CodeSymbol[] {
    for (const specifier of node.specifiers) {
      const name = this.#key(specifier.exported);
      this.exports.push(specifier.type === "ExportNamespaceSpecifier" ? `* as ${name}` : name);
      if (specifier.type === "ExportSpecifier" && node.source == null)
        this.locallyExported.push(this.#key(specifier.local));
    }
    if (node.source != null) {
      const names = node.specifiers.map((specifier) => this.#words(specifier));
      this.#import(node.source.value, names, node);
    }
    if (node.declaration == null) return [];
    const symbols = this.statement(node.declaration, true);
    this.exports.push(...symbols.map(({ name }) => name));
    return symbols;
  }

  #exportDefault(node: Of<"ExportDefaultDeclaration">): CodeSymbol[] {
    this.exports.push("default");
    const { declaration } = node;
    if (declaration.type === "Identifier") this.locallyExported.push(declaration.name);
    if (
      declaration.type === "FunctionDeclaration" ||
      declaration.type === "ClassDeclaration" ||
      declaration.type === "TSDeclareFunction" ||
      declaration.type === "TSInterfaceDeclaration"
    ) {
      return this.statement(declaration, true);
    }
    if (isFunction(declaration)) return [this.#function(declaration, "default", true)];
    return declaration.type === "Identifier" ? [] : [this.#symbol("variable", "default", declaration, true)];
  }

  /** `module.exports = …`, `exports.name = …`, `require("…")`. */
  #commonJs(expression: Expression): void {
    const required = requiredModule(expression);
    if (required !== undefined) this.#import(required, [], expression);
    if (expression.type !== "AssignmentExpression") return;
    const target = this.#words(expression.left);
    const [, name] = /^(?:module\.)?exports\.([\w$]+)$/.exec(target) ?? [];
    if (target !== "module.exports" && name === undefined) return;
    this.exports.push(name ?? "module.exports");
    const { right } = expression;
    if (right.type === "Identifier") this.locallyExported.push(right.name);
    if (right.type !== "ObjectExpression") return;
    for (const property of right.properties) {
      if (property.type === "ObjectProperty" && property.value.type === "Identifier")
        this.locallyExported.push(property.value.name);
    }
  }

  #signature(node: Located, body: Located | null | undefined): string {
    const end = body?.start ?? node.end ?? 0;
    const words = this.#slice(node.start ?? 0, end)
      .trimEnd()
      .replace(/(?:=>|\{|;)$/, "")
      .trimEnd();
    return words.length > LONGEST_SIGNATURE ? `${words.slice(0, LONGEST_SIGNATURE)}…` : words;
  }

  /** The name of a member: a private one with its `#`, a computed one as written. */
  #key(key: Located & { type: string }): string {
    const words = this.#words(key);
    return key.type === "StringLiteral" ? words.slice(1, -1) : words;
  }

  #words(node: Located): string {
    return this.#slice(node.start ?? 0, node.end ?? 0);
  }

  #slice(start: number, end: number): string {
    return this.#text.slice(start, end).replace(/\s+/g, " ").trim();
  }
}

function lineOf(node: Located): number {
  return node.loc?.start.line ?? 0;
}

const methodKinds = { constructor: "constructor", get: "getter", set: "setter", method: "method" } as const;

function isFunction(
  node: { type: string } | null | undefined,
): node is Extract<Expression, { type: "ArrowFunctionExpression" | "FunctionExpression" }> {
  return node?.type === "ArrowFunctionExpression" || node?.type === "FunctionExpression";
}

function importName(specifier: Of<"ImportDeclaration">["specifiers"][number]): string {
  const { local } = specifier;
  if (specifier.type === "ImportNamespaceSpecifier") return `* as ${local.name}`;
  if (specifier.type === "ImportDefaultSpecifier") return local.name;
  const { imported } = specifier;
  const name = imported.type === "Identifier" ? imported.name : imported.value;
  return name === local.name ? name : `${name} as ${local.name}`;
}

function requiredModule(node: Expression | null | undefined): string | undefined {
  if (node?.type !== "CallExpression" || node.callee.type !== "Identifier" || node.callee.name !== "require")
    return undefined;
  const [argument] = node.arguments;
  return argument?.type === "StringLiteral" ? argument.value : undefined;
}
