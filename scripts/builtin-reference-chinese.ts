/** By the English sentence, so that a sentence that changes in a tool cannot keep an old translation. */
const translations: Readonly<Record<string, string>> = {
  "Reads a text file of the workspace. Answers with its lines, at most 2,000 lines or 256 KB per call; a longer file ends with a note that says how to read on. An image up to 2 MB comes back as an image; of any other binary file only type and size are told.":
    "读取工作区中的文本文件，返回其各行，每次最多 2,000 行或 256 KB；更长的文件末尾会注明如何继续读取。不超过 2 MB 的图片以图片返回；其他二进制文件只说明类型和大小。",
  "The file: relative to the workspace, or absolute inside it.": "文件：相对于工作区，或工作区内的绝对路径。",
  "The first line to read, counted from 1.": "从第几行开始读，从 1 数起。",
  "The most lines to read.": "最多读取多少行。",
  "Put its number and a tab before every line.": "在每行前加上行号和一个制表符。",
  "The file's encoding when it is neither UTF-8 nor marked as UTF-16, such as gbk, shift_jis or latin1.":
    "文件既不是 UTF-8、也没有 UTF-16 标记时的编码，例如 gbk、shift_jis 或 latin1。",
  "Bytes of the first line to leave out. Only to read on inside a line longer than 256 KB; the note at its cut says the number.":
    "第一行中要跳过的字节数。仅用于在超过 256 KB 的行内继续读取；截断处的说明会给出这个数。",
  "Writes a UTF-8 text file of the workspace: creates it, replaces all of it, or appends to it. Replacing is atomic and keeps the file's mode. Missing folders are created. Answers with the bytes written and whether the file was created, replaced or appended to.":
    "写入工作区中的 UTF-8 文本文件：创建、整体替换或追加。替换是原子的，并保留文件的权限。缺少的文件夹会被创建。返回写入的字节数，以及文件是被创建、替换还是追加。",
  "The whole new text, or with append the text to add at the end.":
    "全部新内容；使用 append 时为要加在末尾的内容。",
  "Create missing folders on the way.": "创建路径上缺少的文件夹。",
  "Add to the end instead of replacing.": "加在末尾，而不是替换。",
  "Lists a folder of the workspace, or with recursive: true the whole tree under it: name, path, type, size and time of change, folders first. Leaves out what .gitignore leaves out, .git and node_modules, unless all: true. Stops at 1,000 entries by default and says so.":
    "列出工作区中的一个文件夹；recursive: true 时列出其下整棵树：名称、路径、类型、大小和修改时间，文件夹在前。不列出 .gitignore 排除的内容、.git 和 node_modules，除非 all: true。默认到 1,000 项为止，并会说明。",
  "The folder; by default the workspace itself.": "文件夹；默认是工作区本身。",
  "Go into the folders below.": "进入下面的文件夹。",
  "With recursive, how many levels deep; by default all of them.": "使用 recursive 时深入几层；默认全部。",
  "Only entries that fit this glob: *.ts and *.{ts,tsx} look at the name, a pattern with a slash such as src/**/*.test.ts at the path below the folder. A slash implies recursive.":
    "只列出符合这个通配模式的项：*.ts 和 *.{ts,tsx} 匹配名称；带斜杠的模式（例如 src/**/*.test.ts）匹配该文件夹以下的路径。带斜杠即意味着 recursive。",
  "More to leave out, in the language of .gitignore.": "还要排除的内容，用 .gitignore 的写法。",
  "Show also what is left out by default.": "也显示默认排除的内容。",
  "The most entries.": "最多多少项。",
  "Deletes a file, a link or a folder of the workspace for good. A link is deleted itself, never what it points to. A folder that is not empty needs recursive: true.":
    "永久删除工作区中的文件、链接或文件夹。删除的是链接本身，而不是它指向的内容。非空文件夹需要 recursive: true。",
  "What to delete: relative to the workspace, or absolute inside it.":
    "要删除的内容：相对于工作区，或工作区内的绝对路径。",
  "Delete a folder with everything in it.": "连同其中的一切删除文件夹。",
  "Creates a folder in the workspace, with the folders above it where they are missing. A folder that is already there is fine and stays as it is.":
    "在工作区中创建文件夹，并创建其上缺少的文件夹。文件夹已经存在也没有问题，保持原样。",
  "The folder: relative to the workspace, or absolute inside it.":
    "文件夹：相对于工作区，或工作区内的绝对路径。",
  "Create missing folders above it. With false, a missing parent or an existing folder is an error.":
    "创建其上缺少的文件夹。为 false 时，缺少上级文件夹或文件夹已存在都是错误。",
  "Moves or renames a file or folder inside the workspace. Into an existing folder it keeps its name; missing folders are created. An existing file is only replaced with overwrite: true; a folder that is not empty never is. A link is moved itself, never what it points to.":
    "在工作区内移动或重命名文件或文件夹。移入已有文件夹时保持名称；缺少的文件夹会被创建。已有的文件只有在 overwrite: true 时才被替换；非空文件夹从不被替换。移动的是链接本身，而不是它指向的内容。",
  "What to move: relative to the workspace, or absolute inside it.":
    "要移动的内容：相对于工作区，或工作区内的绝对路径。",
  "The new path, or an existing folder to move into.": "新路径，或要移入的已有文件夹。",
  "Replace a file that is already there.": "替换已经存在的文件。",
  "Copies a file or a whole folder inside the workspace. Into an existing folder the copy keeps its name; missing folders are created. Existing files are only replaced with overwrite: true, and an existing folder of the same name is then merged. The server's own files are left out, and files that give power too unless the caller is an admin. Links in a folder are copied as links when they stay inside the workspace, otherwise left out and reported.":
    "在工作区内复制文件或整个文件夹。复制到已有文件夹时保持名称；缺少的文件夹会被创建。已有的文件只有在 overwrite: true 时才被替换，此时同名的已有文件夹会被合并。服务器自己的文件会被略去；调用方不是管理员时，赋予权力的文件也会被略去。文件夹中的链接，如果指向工作区内则作为链接复制，否则略去并报告。",
  "What to copy: relative to the workspace, or absolute inside it.":
    "要复制的内容：相对于工作区，或工作区内的绝对路径。",
  "The new path, or an existing folder to copy into.": "新路径，或要复制到的已有文件夹。",
  "Copy folders with everything in them.": "连同其中的一切复制文件夹。",
  "Replace files that are already there.": "替换已经存在的文件。",
  "Searches the text of the workspace's files with a regular expression (ripgrep). Answers with path, line number and line of every match, in order of path, at most 100 by default. Leaves out what .gitignore leaves out, .git, node_modules, binary files and files over 32 MB. Finding nothing is a normal answer.":
    "用正则表达式（ripgrep）搜索工作区文件的文本。按路径顺序返回每处匹配的路径、行号和该行，默认最多 100 处。不搜索 .gitignore 排除的内容、.git、node_modules、二进制文件和超过 32 MB 的文件。什么都没找到也是正常的回答。",
  "The regular expression, in ripgrep's syntax; with literal the exact text.":
    "正则表达式，ripgrep 语法；使用 literal 时为原样文本。",
  "The folder or file to search; by default the workspace.": "要搜索的文件夹或文件；默认是工作区。",
  "Take the query as plain text.": "把 query 当作普通文本。",
  "Let upper and lower case match each other.": "不区分大小写。",
  'Only files that fit one of these, such as "*.ts" or "src/**"; "!*.test.ts" leaves files out.':
    '只搜索符合其中之一的文件，例如 "*.ts" 或 "src/**"；"!*.test.ts" 表示排除。',
  "Lines to show around a match.": "在匹配前后显示多少行。",
  "The most matches, or files.": "最多多少处匹配，或多少个文件。",
  "Only name the files that match.": "只列出有匹配的文件。",
  "Shows what code consists of without reading it whole. Of a TypeScript or JavaScript file: functions, classes with methods, interfaces, types, enums and variables with line ranges and whether they are exported, imports, exports and syntax errors. Of other languages: lines of code, comments and blanks. Of a folder: a summary per file.":
    "不必通读就能看出代码由什么组成。对 TypeScript 或 JavaScript 文件：函数、类及其方法、接口、类型、枚举和变量，连同行范围和是否导出，以及导入、导出和语法错误。对其他语言：代码行、注释行和空行数。对文件夹：每个文件的概要。",
  "The file or folder: relative to the workspace, or absolute inside it.":
    "文件或文件夹：相对于工作区，或工作区内的绝对路径。",
  "Of a folder, the most files.": "对文件夹，最多多少个文件。",
  "Formats a file or folder with the formatter that the project itself uses: Biome, dprint or Prettier, found by its config file or package.json. Answers which one ran and which files changed; with check: true nothing is written and the files that are not formatted are named. Runs for at most 60 seconds.":
    "用项目自己的格式化工具格式化文件或文件夹：Biome、dprint 或 Prettier，按其配置文件或 package.json 找到。返回运行了哪一个、哪些文件有变化；check: true 时不写入任何内容，只列出未格式化的文件。最多运行 60 秒。",
  "Only say what would change.": "只说明会有哪些变化。",
  "Runs a command on the machine where the tools live and waits for it to end. Gives stdout, stderr, the exit code and the signal; a non-zero exit is reported as an error together with both streams. Without `args` the shell runs `command`, so pipes, `&&` and globs work; with `args` the program is started directly and nothing needs quoting. Runs in the workspace unless `cwd` says otherwise, has no terminal, and sees only basic environment variables plus `env`. On timeout the command and its process group are killed, and what it had written so far is returned. Of each stream the first and last 32 KB are kept. A process started with `&` goes on after the call, without its output being captured.":
    "在工具所在的机器上运行一条命令并等它结束。返回 stdout、stderr、退出码和信号；退出码非零时报告为错误，并附上两个输出流。不给 `args` 时由 shell 运行 `command`，因此管道、`&&` 和通配符可用；给出 `args` 时直接启动程序，无需加引号。除非 `cwd` 另有指定，在工作区中运行；没有终端，只能看到基本的环境变量和 `env`。超时后，命令及其进程组都会被终止，并返回已经写出的内容。每个输出流保留开头和末尾各 32 KB。用 `&` 启动的进程在调用结束后继续运行，其输出不会被收集。",
  "A shell command line, or a program when `args` is given.": "一行 shell 命令；给出 `args` 时为程序。",
  "Arguments for the program. When given, even empty, no shell is involved.":
    "程序的参数。只要给出，即使为空，就不经过 shell。",
  "Directory to run in, inside the workspace. Default: the workspace.":
    "运行所在的目录，须在工作区内。默认是工作区。",
  "Longest run in milliseconds.": "最长运行时间，毫秒。",
  "Environment variables to add.": "要增加的环境变量。",
  "Text for the command's standard input. Default: no input.": "送入命令标准输入的文本。默认没有输入。",
  "Bytes to keep of each stream, half from the beginning and half from the end.":
    "每个输出流保留的字节数，开头和末尾各一半。",
  "Describes the machine where the tools run: operating system, kernel, CPU, memory, load, uptime, Node version, and the disk that holds the workspace. Use it to choose commands and sizes that fit. Shows no environment variables and no secrets.":
    "描述工具运行所在的机器：操作系统、内核、CPU、内存、负载、运行时间、Node 版本，以及工作区所在的磁盘。用来选择合适的命令和大小。不显示环境变量和机密。",
  "Tells which environment variables the server has. Lists their names, or looks up one by `name` or several by `prefix`. Values are shown only for variables that never hold secrets (PATH, HOME, LANG, LC_*, TZ, TMPDIR, USER, SHELL, TERM); all others read [set, hidden]. Use it to check that something is configured, not to read credentials.":
    "说明服务器有哪些环境变量。列出名称，或按 `name` 查一个，或按 `prefix` 查几个。只显示从不含机密的变量的值（PATH、HOME、LANG、LC_*、TZ、TMPDIR、USER、SHELL、TERM）；其余一律显示 [set, hidden]。用来检查某项是否已配置，而不是读取凭据。",
  "One variable, exactly as it is spelt.": "一个变量，拼写须完全一致。",
  "Only variables whose names begin with this, for example NODE_.": "只看名称以此开头的变量，例如 NODE_。",
  "Sends an HTTP request and gives the answer: status, headers and body. JSON is indented, text decoded by its charset, small images are shown, other binary content is described (use internal_network_download to keep it). A status of 400 or above is reported as an error together with the body. Bodies are cut at `maxBytes`. Only http and https, and only public addresses: localhost, private networks and cloud metadata are refused unless the operator allowed them. Credentials are dropped when a redirect leads to another origin.":
    "发送 HTTP 请求并返回应答：状态、头和正文。JSON 会缩进，文本按其字符集解码，小图片会显示，其他二进制内容只作描述（要保存请用 internal_network_download）。状态为 400 或以上时报告为错误，并附上正文。正文在 `maxBytes` 处截断。只支持 http 和 https，且只能访问公网地址：localhost、私有网络和云元数据会被拒绝，除非管理员允许。重定向到其他源时会去掉凭据。",
  "A whole address, with http:// or https://.": "完整的地址，带 http:// 或 https://。",
  "Request headers.": "请求头。",
  "Parameters to add to the URL; they are encoded for you. A list repeats the parameter.":
    "要加到 URL 上的参数，会自动编码。列表会重复该参数。",
  "A string is sent as it is; anything else is sent as JSON. The content-type is chosen to fit unless headers give one.":
    "字符串原样发送，其他值以 JSON 发送。除非 headers 给出，content-type 会相应选择。",
  "Milliseconds for the whole exchange, redirects and body included.": "整个交换的毫秒数，包括重定向和正文。",
  "Most bytes of the body to read, counted after decompression.": "最多读取正文的多少字节，按解压后计算。",
  "Follow up to 5 redirects.": "最多跟随 5 次重定向。",
  "Downloads a URL into a file of the workspace and gives the path, size, content type and SHA-256. The file appears only when it is complete; a failed, cancelled or oversized download leaves nothing behind. Missing directories are made. Without `path`, or when `path` is a directory, the file is named as the server calls it. Only http and https, and only public addresses unless the operator allowed others; redirects are followed.":
    "把一个 URL 下载为工作区中的文件，并返回路径、大小、内容类型和 SHA-256。文件在完整之后才出现；失败、取消或过大的下载不会留下任何东西。缺少的目录会被创建。不给 `path`，或 `path` 是目录时，文件按服务器给出的名称命名。只支持 http 和 https，且只能访问公网地址，除非管理员允许其他地址；会跟随重定向。",
  "File to write, or a directory (end it with / if it does not exist yet). Default: the workspace.":
    "要写入的文件，或一个目录（如果还不存在，以 / 结尾）。默认是工作区。",
  "Largest file to accept; anything larger is refused.": "可接受的最大文件；更大的会被拒绝。",
  "Milliseconds for the whole download.": "整个下载的毫秒数。",
  "Runs one reading SQL statement (SELECT, WITH, SHOW, EXPLAIN, PRAGMA table_info …) on a database that the workspace declares, and gives the rows as a table. The database itself refuses every change: SQLite is opened read-only, PostgreSQL and MySQL run it in a read-only transaction. Gives at most `limit` rows and says when there are more. Long values are clipped in the text; the structured rows keep up to 64 K characters of each. Integers too large for JSON are strings, binary values are {bytes, base64}.":
    "在工作区声明的数据库上运行一条读取的 SQL 语句（SELECT、WITH、SHOW、EXPLAIN、PRAGMA table_info …），并以表格返回各行。任何改动都由数据库自身拒绝：SQLite 以只读方式打开，PostgreSQL 和 MySQL 在只读事务中运行。最多返回 `limit` 行，还有更多时会说明。文本中过长的值会被截短；结构化的行中每个值最多保留 64 K 字符。JSON 容不下的整数以字符串表示，二进制值为 {bytes, base64}。",
  "Name of a database that the workspace declares. May be left out when there is only one.":
    "工作区声明的数据库的名称。只有一个时可以省略。",
  "One SQL statement, in the database's own dialect.": "一条 SQL 语句，用该数据库自己的方言。",
  "Values for placeholders; never write values into the sql. An array for ? (SQLite, MySQL) or $1 (PostgreSQL), an object for :name (all).":
    "占位符的值；不要把值写进 sql。?（SQLite、MySQL）或 $1（PostgreSQL）用数组，:name（全部）用对象。",
  "Most rows to give back.": "最多返回多少行。",
  "Milliseconds after which the statement is stopped.": "多少毫秒后停止该语句。",
  "Runs one SQL statement that changes a database which the workspace declares: INSERT, UPDATE, DELETE, CREATE TABLE and the like. Gives the number of affected rows, the id of the last inserted row where the database has one (PostgreSQL: use RETURNING), and the rows of RETURNING. Runs in a transaction that is committed when the statement succeeds and rolled back when it fails, times out or is cancelled; MySQL commits changes of the schema at once, whatever follows. Foreign keys are enforced.":
    "运行一条改动数据库的 SQL 语句，数据库须由工作区声明：INSERT、UPDATE、DELETE、CREATE TABLE 等。返回受影响的行数、最后插入的行的 id（数据库有此概念时；PostgreSQL 请用 RETURNING），以及 RETURNING 的各行。在事务中运行，成功时提交，失败、超时或取消时回滚；MySQL 会立即提交结构的改动，无论之后发生什么。外键约束有效。",
  "Compiles and reloads the tool files of the workspace, and says what was compiled, loaded, removed and refused. Call it after a tool file was added or changed; when it succeeds the tool can be called at once.":
    "编译并重新加载工作区的工具文件，并说明编译、加载、移除和拒绝了什么。在增加或改动工具文件之后调用；成功后即可调用该工具。",
  "Also loads files anew that have not changed.": "未改动的文件也重新加载。",
  "Looks up recorded tool calls in the log by tool, status, duration and time, a page at a time. Only an admin sees the calls of others.":
    "按工具、状态、时长和时间查询日志中记录的工具调用，每次一页。只有管理员能看到他人的调用。",
  "A name, a glob such as internal_file_*, or /a regular expression/.":
    "名称、通配模式（例如 internal_file_*），或 /正则表达式/。",
  "The same as tool, as older callers write it.": "与 tool 相同，旧的调用方这样写。",
  "Only calls that ended this way.": "只看以此结果结束的调用。",
  "Only calls of this caller.": "只看这个调用方的调用。",
  "At least this many milliseconds.": "至少这么多毫秒。",
  "At most this many milliseconds.": "最多这么多毫秒。",
  "From this time on, such as 2026-03-15T02:29:40Z.": "从这个时间起，例如 2026-03-15T02:29:40Z。",
  "Up to this time, written like startTime.": "到这个时间为止，写法与 startTime 相同。",
  "Which page, from 1.": "第几页，从 1 数起。",
  "Lines a page.": "每页多少行。",
  "Which come first.": "哪些在前。",
  "The HTTP method.": "HTTP 方法。",
};

export function chineseOf(text: string): string {
  const translated = translations[text];
  if (translated === undefined) {
    throw new Error(`Add the Chinese of this sentence to scripts/builtin-reference-chinese.ts: ${text}`);
  }
  return translated;
}
