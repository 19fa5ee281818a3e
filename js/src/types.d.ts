// SPDX-License-Identifier: MIT

/** Uint8Array<ArrayBuffer> from TypeScript 5.7 on; Uint8Array in earlier versions. */
export type Bytes = ReturnType<Uint8ArrayConstructor['of']>;

/** An object with [Symbol.dispose]() for `using`, if the program's `lib` has Symbol.dispose. */
export type Disposed = SymbolConstructor extends { readonly dispose: infer S extends symbol } ? { [K in S]: () => void } : {};
