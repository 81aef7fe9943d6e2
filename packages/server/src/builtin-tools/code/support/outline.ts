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

interface Import {
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
/** The node of a name, or the name itself. */
type Key = string | (Located & { type: string });

const LONGEST_SIGNATURE = 200;
const methodKinds = { constructor: "constructor", get: "getter", set: "setter", method: "method" } as const;

/** The declarations, imports and exports of a parsed file: the top level, and the members of classes and namespaces. */
export function outline(file: ParseResult, text: string): Outline {
  const reader = new OutlineReader(text);
  const symbols = file.program.body.flatMap((statement) => reader.statement(statement));
  const { imports, exports, locallyExported } = reader;
  return {
    symbols: symbols.map((one) => (locallyExported.has(one.name) ? { ...one, exported: true } : one)),
    imports,
    exports: [...new Set(exports)],
  };
}

class OutlineReader {
  readonly imports: Import[] = [];
  readonly exports: string[] = [];
  /** Local names of `export { x }` and `export default x`. */
  readonly locallyExported = new Set<string>();
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  statement(node: Statement, exported = false): CodeSymbol[] {
    switch (node.type) {
      case "FunctionDeclaration":
      case "TSDeclareFunction":
        return [this.#function("function", node.id ?? "default", node, exported)];
      case "ClassDeclaration":
        return [this.#class(node, node.id ?? "default", node.body, exported)];
      case "VariableDeclaration":
        return node.declarations.flatMap((declarator) => this.#variable(declarator, exported));
      case "TSInterfaceDeclaration": {
        const members = node.body.body.flatMap((member) => {
          if (member.type === "TSMethodSignature") return [this.#symbol("method", member.key, member)];
          return member.type === "TSPropertySignature" ? [this.#symbol("property", member.key, member)] : [];
        });
        return [{ ...this.#symbol("interface", node.id, node, exported), members }];
      }
      case "TSTypeAliasDeclaration":
      case "TypeAlias":
        return [this.#symbol("type", node.id, node, exported)];
      case "InterfaceDeclaration":
        return [this.#symbol("interface", node.id, node, exported)];
      case "TSEnumDeclaration": {
        const members = node.body.members.map((one) => this.#symbol("member", one.id, one));
        return [{ ...this.#symbol("enum", node.id, node, exported), members }];
      }
      case "TSModuleDeclaration": {
        const inner = new OutlineReader(this.#text);
        const body = node.body?.type === "TSModuleBlock" ? node.body.body : [];
        const members = body.flatMap((statement) => inner.statement(statement));
        return [{ ...this.#symbol("namespace", node.id, node, exported), members }];
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
        return this.#exportDefault(node.declaration);
      case "ExportAllDeclaration":
        this.exports.push(`* from "${node.source.value}"`);
        return [];
      case "TSExportAssignment":
        this.#export("=", node.expression);
        return [];
      case "ExpressionStatement":
        this.#commonJs(node.expression);
        return [];
      default:
        return [];
    }
  }

  #symbol(kind: string, key: Key, node: Located, exported = false): CodeSymbol {
    const name = typeof key === "string" ? key : this.#key(key);
    return { kind, name, line: lineOf(node), endLine: node.loc?.end.line ?? 0, exported };
  }

  #function(kind: string, key: Key, node: Located & { body?: Located | null }, exported = false): CodeSymbol {
    const words = this.#slice(node.start, node.body?.start ?? node.end).replace(/\s*(?:=>|\{|;)$/, "");
    const signature = words.length > LONGEST_SIGNATURE ? `${words.slice(0, LONGEST_SIGNATURE)}…` : words;
    return { ...this.#symbol(kind, key, node, exported), signature };
  }

  #class(node: Located, key: Key, { body }: ClassBody, exported: boolean): CodeSymbol {
    const members = body.flatMap((member): CodeSymbol[] => {
      switch (member.type) {
        case "ClassMethod":
        case "ClassPrivateMethod":
        case "TSDeclareMethod":
          return [this.#function(methodKinds[member.kind], member.key, member)];
        case "ClassProperty":
        case "ClassPrivateProperty":
        case "ClassAccessorProperty":
          return isFunction(member.value)
            ? [this.#function("method", member.key, { ...member, body: member.value.body })]
            : [this.#symbol("property", member.key, member)];
        default:
          return [];
      }
    });
    return { ...this.#symbol("class", key, node, exported), members };
  }

  #variable(declarator: Declarator, exported: boolean): CodeSymbol[] {
    const { id, init } = declarator;
    const name = id.type === "Identifier" ? id.name : this.#words(id);
    const required = requiredModule(init);
    if (required !== undefined) {
      this.#import(required, [name], declarator);
      return [];
    }
    if (isFunction(init))
      return [this.#function("function", name, { ...declarator, body: init.body }, exported)];
    if (init?.type === "ClassExpression") return [this.#class(declarator, name, init.body, exported)];
    return [this.#symbol("variable", name, declarator, exported)];
  }

  #import(from: string, names: readonly string[], node: Located): void {
    this.imports.push({ from, names, line: lineOf(node) });
  }

  /** `value`: the exported expression. If it is a name, the symbol of that name counts as exported. */
  #export(name: string, value: Located & { type: string }): void {
    this.exports.push(name);
    if (value.type === "Identifier") this.locallyExported.add(this.#words(value));
  }

  #exportNamed({ specifiers, source, declaration, ...node }: Of<"ExportNamedDeclaration">): CodeSymbol[] {
    for (const specifier of specifiers) {
      const name = this.#key(specifier.exported);
      this.exports.push(specifier.type === "ExportNamespaceSpecifier" ? `* as ${name}` : name);
      if (specifier.type === "ExportSpecifier" && source == null)
        this.locallyExported.add(this.#key(specifier.local));
    }
    if (source != null) {
      const names = specifiers.map((specifier) => this.#words(specifier));
      this.#import(source.value, names, node);
    }
    const symbols = declaration == null ? [] : this.statement(declaration, true);
    this.exports.push(...symbols.map(({ name }) => name));
    return symbols;
  }

  #exportDefault(declaration: Of<"ExportDefaultDeclaration">["declaration"]): CodeSymbol[] {
    this.#export("default", declaration);
    switch (declaration.type) {
      case "FunctionDeclaration":
      case "ClassDeclaration":
      case "TSDeclareFunction":
      case "TSInterfaceDeclaration":
        return this.statement(declaration, true);
      case "Identifier":
        return [];
    }
    return isFunction(declaration)
      ? [this.#function("function", "default", declaration, true)]
      : [this.#symbol("variable", "default", declaration, true)];
  }

  /** `module.exports = …`, `exports.name = …`, `require("…")`. */
  #commonJs(expression: Expression): void {
    const required = requiredModule(expression);
    if (required !== undefined) this.#import(required, [], expression);
    if (expression.type !== "AssignmentExpression") return;
    const { left, right } = expression;
    const target = this.#words(left);
    const [, name] = /^(?:module\.)?exports\.([\w$]+)$/.exec(target) ?? [];
    if (target !== "module.exports" && name === undefined) return;
    this.#export(name ?? "module.exports", right);
    for (const property of right.type === "ObjectExpression" ? right.properties : []) {
      if (property.type === "ObjectProperty" && property.value.type === "Identifier")
        this.locallyExported.add(property.value.name);
    }
  }

  /** The name of a member: a private one with its `#`, a computed one as written. */
  #key(key: Located & { type: string }): string {
    const words = this.#words(key);
    return key.type === "StringLiteral" ? words.slice(1, -1) : words;
  }

  #words(node: Located): string {
    return this.#slice(node.start, node.end);
  }

  #slice(start: number | null | undefined, end: number | null | undefined): string {
    return this.#text
      .slice(start ?? 0, end ?? 0)
      .replace(/\s+/g, " ")
      .trim();
  }
}

function lineOf(node: Located): number {
  return node.loc?.start.line ?? 0;
}

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
