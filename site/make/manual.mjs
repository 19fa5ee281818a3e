export async function manual() { return new Map(); }
