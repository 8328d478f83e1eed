CREATE DATABASE IF NOT EXISTS slurm;
CREATE USER IF NOT EXISTS '$slurm_user'@'localhost' IDENTIFIED VIA unix_socket;
GRANT ALL PRIVILEGES ON slurm.* TO '$slurm_user'@'localhost';
