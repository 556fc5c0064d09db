// esbuild puts them into app.css.
declare module "*.css";
