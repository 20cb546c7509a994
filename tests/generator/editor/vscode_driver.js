// An extension that looks at the other one from within Visual Studio Code, and sends
// what it saw to the test.
'use strict';

const net = require('net');
const path = require('path');
const vscode = require('vscode');

const FILE = 'environments/prod/jobs/llm.yaml';

/** Waits for an event that already may have happened. */
function until(event, found) {
  return new Promise((resolve) => {
    const look = () => found() && (subscription.dispose(), resolve(found()));
    const subscription = event(look);
    look();
  });
}

async function look(root) {
  const uri = vscode.Uri.file(path.join(root, FILE));
  const document = await vscode.workspace.openTextDocument(uri);
  await vscode.window.showTextDocument(document);
  const diagnostics = await until(vscode.languages.onDidChangeDiagnostics, () => {
    const found = vscode.languages.getDiagnostics(uri);
    return found.length > 0 && found;
  });
  const range = diagnostics[0].range;
  const at = (command, ...rest) => vscode.commands.executeCommand(command, uri, ...rest);
  const actions = await at('vscode.executeCodeActionProvider', range);
  const hover = await at('vscode.executeHoverProvider', document.lineAt(2).range.start);
  const fix = actions.find((action) => action.edit);
  await vscode.workspace.applyEdit(fix.edit);
  await document.save();
  await until(
    vscode.languages.onDidChangeDiagnostics,
    () => vscode.languages.getDiagnostics(uri).length === 0,
  );
  let ended;
  vscode.tasks.onDidEndTaskProcess((event) => {
    ended = { name: event.execution.task.name, code: event.exitCode };
  });
  await vscode.commands.executeCommand('trainwright.plan');
  await until(vscode.tasks.onDidEndTaskProcess, () => ended);
  const extension = vscode.extensions.getExtension('trainwright.trainwright');
  return {
    version: vscode.version,
    active: extension.isActive,
    commands: (await vscode.commands.getCommands(true)).filter((id) => id.startsWith('trainwright.')),
    diagnostics: diagnostics.map((one) => ({
      code: one.code.value ?? one.code,
      message: one.message,
      line: one.range.start.line,
    })),
    actions: actions.map((action) => action.title),
    hover: hover.flatMap((one) => one.contents.map((content) => content.value ?? content)).join('\n'),
    text: document.getText(),
    task: ended,
    terminals: vscode.window.terminals.map((terminal) => terminal.name),
  };
}

async function activate() {
  const root = vscode.workspace.workspaceFolders[0].uri.fsPath;
  const seen = await look(root).catch((error) => ({ error: String(error.stack ?? error) }));
  net.connect(Number(process.env.TRAINWRIGHT_SEEN), '127.0.0.1').end(JSON.stringify(seen));
}

module.exports = { activate };
