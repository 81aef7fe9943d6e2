import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { json, jsonParseLinter } from "@codemirror/lang-json";
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { linter, lintGutter } from "@codemirror/lint";
import { Compartment, EditorState, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

export interface EditorOptions {
  readonly text: string;
  readonly label: string;
  readonly language: "json" | "markdown" | "text";
  readonly isDark: boolean;
  readonly onChange: (text: string) => void;
  readonly onPaste?: (text: string) => void;
}

/** An editor in a shadow root with adopted style sheets, because the security policy refuses style elements. */
export function openEditor(host: HTMLElement, options: EditorOptions) {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const theme = new Compartment();
  const language = new Compartment();
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: options.text,
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        highlightActiveLine(),
        language.of(options.language === "json" ? jsonLanguage() : []),
        syntaxHighlighting(colours),
        theme.of(EditorView.theme(looks, { dark: options.isDark })),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": options.label }),
        // After Escape, Tab leaves the editor, so that keyboard users are not trapped.
        keymap.of([
          ...defaultKeymap.filter(({ key }) => key !== "Mod-Enter"),
          ...historyKeymap,
          indentWithTab,
        ]),
        EditorView.updateListener.of((update) => {
          if (!update.docChanged) return;
          const text = update.state.doc.toString();
          options.onChange(text);
          if (update.transactions.some((change) => change.isUserEvent("input.paste")))
            options.onPaste?.(text);
        }),
      ],
    }),
  });
  if (options.language === "markdown") {
    // Markdown support is large, so it is loaded while the person can already type.
    void import("@codemirror/lang-markdown").then(({ markdown }) =>
      view.dispatch({ effects: language.reconfigure(markdown()) }),
    );
  }
  return {
    text: () => view.state.doc.toString(),
    setText: (text: string) =>
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }),
    setDark: (dark: boolean) =>
      view.dispatch({ effects: theme.reconfigure(EditorView.theme(looks, { dark })) }),
    close: () => view.destroy(),
  };
}

function jsonLanguage(): Extension {
  return [json(), linter(jsonParseLinter()), lintGutter()];
}

// Custom properties reach into a shadow root, so the editor follows the page's theme by itself.
const looks = {
  "&": { color: "var(--ink)", backgroundColor: "var(--surface)", fontSize: "12px", maxHeight: "60vh" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": {
    fontFamily: "var(--font-mono)",
    lineHeight: "20px",
    minHeight: "10rem",
    overflow: "auto",
  },
  ".cm-gutters": { backgroundColor: "var(--sunken)", color: "var(--faint)", border: "none" },
  ".cm-activeLine": { backgroundColor: "color-mix(in oklab, var(--accent) 7%, transparent)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "color-mix(in oklab, var(--accent) 25%, transparent) !important",
  },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--ink)", border: "1px solid var(--line)" },
};

const colours = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--accent)" },
  { tag: tags.string, color: "var(--good)" },
  { tag: tags.number, color: "var(--info)" },
  { tag: [tags.bool, tags.null], color: "var(--warn)" },
  { tag: tags.heading, color: "var(--accent)", fontWeight: "600" },
  { tag: tags.strong, fontWeight: "600" },
  { tag: tags.emphasis, fontStyle: "italic" },
  { tag: [tags.link, tags.url], color: "var(--info)" },
  { tag: tags.monospace, color: "var(--good)" },
  { tag: [tags.processingInstruction, tags.comment, tags.meta], color: "var(--faint)" },
]);
