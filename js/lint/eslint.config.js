// SPDX-License-Identifier: MIT
// What script/lint asks of JavaScript.  (TypeScript's compiler checks the types, in js/tests/.)
import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  {
    // One file runs in browsers, workers and Node.
    languageOptions: { globals: { ...globals.browser, ...globals.serviceworker, ...globals.node } },
    linterOptions: { reportUnusedDisableDirectives: "error" },
  },
];
