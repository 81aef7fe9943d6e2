/** The scripts ask the hidden command `__complete`, which answers with lines of `word<TAB>what it is`. */
export const completionScripts = {
  bash: `# Add to ~/.bashrc:  source <(toolrack completion bash)
_toolrack() {
  local line="\${COMP_LINE:0:COMP_POINT}" current prefix word
  local -a words
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  current="\${words[\${#words[@]}-1]}"
  # bash begins a new word after = and :, so what stands before them must not be offered again.
  prefix="\${current%"\${current##*[=:]}"}"
  COMPREPLY=()
  while IFS=$'\\t' read -r word _; do
    COMPREPLY+=("\${word#"$prefix"}")
  done < <(toolrack __complete -- "\${words[@]:1}" 2>/dev/null)
  [[ \${#COMPREPLY[@]} -eq 1 && \${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -o default -F _toolrack toolrack
`,
  zsh: `#compdef toolrack
# Add to ~/.zshrc after compinit:  source <(toolrack completion zsh)
_toolrack() {
  local line word about
  local -a plain open
  for line in "\${(@f)$(toolrack __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -z $line ]] && continue
    word="\${line%%$'\\t'*}"
    about="\${line#*$'\\t'}"
    if [[ $word == *= ]]; then open+=("$word"); else plain+=("\${word//:/\\\\:}:$about"); fi
  done
  if (( \${#plain} + \${#open} == 0 )); then _files; return; fi
  (( \${#plain} )) && _describe -V toolrack plain
  (( \${#open} )) && compadd -S '' -- "\${open[@]}"
}
compdef _toolrack toolrack
`,
  fish: `# Save as ~/.config/fish/completions/toolrack.fish
function __toolrack_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  toolrack __complete -- $words[2..-1] "$current" 2>/dev/null
end
complete -c toolrack -f -a '(__toolrack_complete)'
complete -c toolrack -s o -l output -r -F
`,
} as const;

export type Shell = keyof typeof completionScripts;
