export async function references({ put }) { put({ path: 'reference/index.html', title: 'Reference', body: '<h1>Reference</h1>' }); }
