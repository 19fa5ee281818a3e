// SPDX-License-Identifier: MIT

/** Uint8Array<ArrayBuffer>, where TypeScript knows that: from 5.7 on. */
export type Bytes = ReturnType<Uint8ArrayConstructor['of']>;

/** [Symbol.dispose]() for `using`, where the program's `lib` has Symbol.dispose. */
export type Disposed = SymbolConstructor extends { readonly dispose: infer S extends symbol } ? { [K in S]: () => void } : {};
